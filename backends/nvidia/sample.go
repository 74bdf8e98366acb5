package nvidia

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

const (
	// maxXIDs bounds the codes that are counted one by one for each GPU; the rest
	// are counted together.
	maxXIDs = 64
	// otherXIDs is their label.
	otherXIDs = "other"
)

// xidCounts counts XIDs by code, since the process started.
type xidCounts map[string]uint64

func (c xidCounts) add(code uint64) {
	label := strconv.FormatUint(code, 10)
	if _, known := c[label]; !known && len(c) >= maxXIDs {
		label = otherXIDs
	}
	c[label]++
}

// Sample implements [sdk.Sampler]. While the driver is away there is nothing but
// what was counted. Values of a GPU in MIG mode that is no device itself have its
// UUID, which is the MIG devices' parent.
func (b *Backend) Sample(ctx context.Context) ([]*sdk.Metric, error) {
	type state struct {
		driver *driver.Driver
		xids   map[string]xidCounts
	}
	s, err := sdk.InLoop(ctx, b.asks, func(l *loop) state {
		s := state{l.driver, map[string]xidCounts{}}
		for uuid, known := range l.roster.gpus {
			s.xids[uuid] = maps.Clone(known.xids)
		}
		return s
	})
	if err != nil {
		return nil, err
	}
	measured, err := s.driver.Telemetry(ctx)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("measure the GPUs: %w", ctx.Err())
	}
	if err != nil {
		b.log.Debug("nothing can be measured", "error", err)
	}
	var metrics []*sdk.Metric
	for _, m := range measured {
		if m.Err != nil {
			b.log.Debug("not all can be measured", "device", m.GPU, "error", m.Err)
		}
		for _, v := range m.Values {
			metrics = append(metrics, metric(m.GPU, v))
		}
	}
	for _, uuid := range slices.Sorted(maps.Keys(s.xids)) {
		for _, code := range slices.Sorted(maps.Keys(s.xids[uuid])) {
			metrics = append(metrics, metric(uuid, driver.Value{Name: "xid_errors_total", Counter: true,
				Value: float64(s.xids[uuid][code]), Label: "xid", LabelValue: code}))
		}
	}
	return metrics, nil
}

func metric(device string, v driver.Value) *sdk.Metric {
	m := sdk.Gauge(device, v.Name, v.Value)
	if v.Counter {
		m = sdk.Counter(device, v.Name, v.Value)
	}
	if v.Label != "" {
		m.Labels = map[string]string{v.Label: v.LabelValue}
	}
	return m
}
