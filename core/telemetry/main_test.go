package telemetry

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/accelmux/accelmux/core/inventory"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// play is a backend's behaviour in one stream: it returns when the stream ends.
type play func(ctx context.Context, interval time.Duration, take func(*backendv1.SampleResponse)) error

// rig is a Telemetry with scripted backends, each with one device "d", and the clock of
// synctest.
type rig struct {
	*Telemetry
	t   *testing.T
	log bytes.Buffer

	mu     sync.Mutex
	plays  map[string]play
	opened map[string][]time.Time
	open   map[string]int
	owners map[inventory.Key]Owner
}

func newRig(t *testing.T, plays map[string]play) *rig {
	r := &rig{t: t, plays: plays, opened: map[string][]time.Time{}, open: map[string]int{}, owners: map[inventory.Key]Owner{}}
	for name := range plays {
		r.owners[inventory.Key{Backend: name, ID: "d"}] = Owner{}
	}
	r.Telemetry = New(Options{
		Sample: r.sample, Owners: r.ownersNow, Reserved: []string{"healthy"}, Log: slog.New(slog.NewTextHandler(&r.log, nil)),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	synctest.Wait()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for name, n := range r.open {
			if n != 0 {
				t.Errorf("%d streams of %s are open after the end", n, name)
			}
		}
	})
	return r
}

// sample opens a stream, and fails the test if the backend has one already.
func (r *rig) sample(ctx context.Context, backend string, interval time.Duration, take func(*backendv1.SampleResponse)) error {
	r.mu.Lock()
	r.opened[backend] = append(r.opened[backend], time.Now())
	if r.open[backend]++; r.open[backend] > 1 {
		r.t.Errorf("backend %s is asked for a second stream", backend)
	}
	p := r.plays[backend]
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.open[backend]--
	}()
	if err := p(ctx, interval, take); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

func (r *rig) ownersNow() func(inventory.Key) (Owner, bool) {
	return func(key inventory.Key) (Owner, bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		owner, known := r.owners[key]
		return owner, known
	}
}

// will sets the behaviour of a backend from its next stream on.
func (r *rig) will(backend string, p play) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plays[backend] = p
}

// streams returns how often a stream was opened, and how many are open.
func (r *rig) streams(backend string) (opened, open int) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.opened[backend]), r.open[backend]
}

// one returns the only value that is shown, or fails the test.
func (r *rig) one() float64 {
	r.t.Helper()
	readings := r.Read(r.t.Context())
	if len(readings) != 1 || len(readings[0].Values) != 1 {
		r.t.Fatalf("shown are %+v, want one value; problems %v", readings, r.Problems())
	}
	return readings[0].Values[0].Value
}

// none fails the test if anything is shown.
func (r *rig) none(when string) {
	r.t.Helper()
	if readings := r.Read(r.t.Context()); len(readings) > 0 {
		r.t.Errorf("%s: shown are %+v", when, readings)
	}
}

func gauge(device, name string, value float64) *backendv1.Metric {
	return &backendv1.Metric{DeviceId: device, Name: name, Kind: backendv1.MetricKind_METRIC_KIND_GAUGE, Value: value}
}

func counter(device, name string, value float64) *backendv1.Metric {
	return &backendv1.Metric{DeviceId: device, Name: name, Kind: backendv1.MetricKind_METRIC_KIND_COUNTER, Value: value}
}

func with(m *backendv1.Metric, labels map[string]string) *backendv1.Metric {
	m.Labels = labels
	return m
}

func response(metrics ...*backendv1.Metric) *backendv1.SampleResponse {
	return &backendv1.SampleResponse{Metrics: metrics}
}

// counting sends 1, 2, 3 ... once in every interval.
func counting(ctx context.Context, interval time.Duration, take func(*backendv1.SampleResponse)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for n := 1.0; ; n++ {
		take(response(gauge("d", "power_watts", n)))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// silent sends nothing.
func silent(ctx context.Context, _ time.Duration, _ func(*backendv1.SampleResponse)) error {
	<-ctx.Done()
	return nil
}

// once sends one sample, and then nothing.
func once(ctx context.Context, _ time.Duration, take func(*backendv1.SampleResponse)) error {
	take(response(gauge("d", "power_watts", 1)))
	<-ctx.Done()
	return nil
}

var errBroken = errors.New("the sensor is broken")

// failing fails at once.
func failing(context.Context, time.Duration, func(*backendv1.SampleResponse)) error { return errBroken }

// pass lets time pass in a bubble of synctest.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the bubble's time
}

// wrong sends a valid value and an invalid one.
func wrong(ctx context.Context, interval time.Duration, take func(*backendv1.SampleResponse)) error {
	return counting(ctx, interval, func(valid *backendv1.SampleResponse) {
		take(response(append(valid.GetMetrics(), gauge("d", "fan_ratio", math.NaN()))...))
	})
}
