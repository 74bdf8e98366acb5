package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/telemetry"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

const (
	// samplesTaken is the number of samples to wait for.
	samplesTaken = 3
	// sampleSlack is the number of intervals that the next sample may take: reading may take
	// one.
	sampleSlack = 3
)

// samples checks Sample with two streams, one after the other.
func (c *check) samples(ctx context.Context, s *session, w *stream) {
	if !c.described.Sample {
		c.skip("the manifest does not have the ability sample", sampleInterval, sampleMetrics, sampleStopped)
		return
	}
	now, _ := w.newest()
	c.judge(sampleInterval, c.sample(ctx, s, now, c.timing.Sample, samplesTaken))
	// The core opens the next stream without a pause.
	if err := c.sample(ctx, s, now, 2*c.timing.Sample, 1); err != nil {
		c.fail(sampleStopped, "the next stream: %s", err)
		return
	}
	c.pass(sampleStopped)
	c.comparesMetrics()
}

// sample checks the samples of one stream.
func (c *check) sample(ctx context.Context, s *session, now *backendv1.Inventory, interval time.Duration, take int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.service.Sample(ctx, &backendv1.SampleRequest{Interval: durationpb.New(interval)})
	if err != nil {
		return s.failed("Sample", 0, err)
	}
	samples, ended := make(chan *backendv1.SampleResponse), make(chan error, 1)
	go func() {
		for {
			sample, err := stream.Recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case samples <- sample:
			case <-ctx.Done():
				ended <- ctx.Err()
				return
			}
		}
	}()
	began, limit := time.Now(), c.timing.Inventory
	for i := range take {
		timer := time.NewTimer(limit)
		select {
		case sample := <-samples:
			timer.Stop()
			c.judgeSample(now, sample)
		case err := <-ended:
			timer.Stop()
			if grpcstatus.Code(err) == codes.Unimplemented {
				return errors.New("its manifest has the ability sample, but the program does not implement Sample")
			}
			return s.failed("Sample", 0, err)
		case <-timer.C:
			return fmt.Errorf("sample %d did not come within %s, with an interval of %s", i+1, limit, interval)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		limit = max(sampleSlack*interval, c.timing.Inventory/2)
	}
	// The first sample comes at once, and the core accepts two in an interval.
	if took := time.Since(began); took < time.Duration(take-1)*interval/2 {
		return fmt.Errorf("%d samples came within %s, with an interval of %s", take, took.Round(time.Millisecond), interval)
	}
	return nil
}

// judgeSample checks the metrics of a sample.
func (c *check) judgeSample(now *backendv1.Inventory, sample *backendv1.SampleResponse) {
	c.pass(sampleMetrics)
	if sample.GetTime() == nil || !sample.GetTime().IsValid() {
		c.fail(sampleMetrics, "a sample has no time")
	}
	if c.metrics == nil {
		c.metrics = map[string]bool{}
	}
	for _, m := range sample.GetMetrics() {
		c.metrics[m.GetName()+" of "+cmp.Or(m.GetDeviceId(), "the backend")] = true
	}
	known := func(id string) bool {
		return slices.ContainsFunc(now.GetDevices(), func(d *backendv1.Device) bool { return d.GetId() == id || d.GetParentId() == id })
	}
	for _, problem := range telemetry.Check(sample.GetMetrics(), status.Named(telemetry.Prefix), known) {
		c.fail(sampleMetrics, "%s", problem)
	}
}
