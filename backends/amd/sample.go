package amd

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/amd/ras"
	"github.com/accelmux/accelmux/backends/amd/telemetry"
	"github.com/accelmux/accelmux/backends/sdk"
)

// guard keeps a card from being measured twice at a time.
type guard struct {
	mu   sync.Mutex
	busy map[string]bool
}

func (g *guard) enter(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy[id] {
		return false
	}
	if g.busy == nil {
		g.busy = map[string]bool{}
	}
	g.busy[id] = true
	return true
}

func (g *guard) leave(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.busy, id)
}

// sample is one card to measure.
type sample struct {
	gpu    gpu.GPU
	dir    string
	there  bool
	counts ras.Counters
}

// Sample implements [sdk.Sampler]. Values of a card that is partitioned have its ID,
// which is the partitions' parent.
func (b *Backend) Sample(ctx context.Context) ([]*sdk.Metric, error) {
	sysfs := ""
	cards, err := sdk.InLoop(ctx, b.asks, func(l *loop) []sample {
		sysfs = l.cfg.host.Sysfs
		var all []sample
		for _, known := range l.roster.sorted() {
			all = append(all, sample{known.gpu, known.dir(sysfs), known.absent == nil, known.counts.last})
		}
		return all
	})
	if err != nil {
		return nil, err
	}
	var metrics []*sdk.Metric
	measured := make(chan []*sdk.Metric, len(cards))
	waiting := 0
	for _, card := range cards {
		metrics = append(metrics, card.counted()...)
		if !card.there || !b.measuring.enter(card.gpu.ID) {
			continue
		}
		waiting++
		go func() {
			defer b.measuring.leave(card.gpu.ID)
			values, err := card.measure(sysfs)
			if err != nil {
				b.log.Debug("not all can be measured", "device", card.gpu.ID, "error", err)
			}
			measured <- values
		}()
	}
	values, err := sdk.Collect(ctx, b.log, measured, waiting)
	if err != nil {
		return nil, fmt.Errorf("measure the GPUs: %w", err)
	}
	return append(metrics, values...), nil
}

// measure reads the sensors of a card and of its partitions.
func (s sample) measure(sysfs string) ([]*sdk.Metric, error) {
	m, err := telemetry.Card{Dir: s.dir, DataCentre: strings.HasPrefix(s.gpu.Family, "CDNA")}.Read()
	metrics := metricsOf(s.gpu.ID, m.Values)
	if n := s.counts.PCIeReplays; n.Known && !slices.ContainsFunc(m.Values, func(v telemetry.Value) bool { return v.Name == "pcie_replays_total" }) {
		metrics = append(metrics, sdk.Counter(s.gpu.ID, "pcie_replays_total", float64(n.N)))
	}
	if !s.gpu.Partitioned() {
		return metrics, err
	}
	for _, p := range s.gpu.Partitions {
		var values []telemetry.Value
		if p.Index < len(m.Partitions) {
			values = m.Partitions[p.Index]
		} else if own, wrong := telemetry.ReadPartition(filepath.Join(sysfs, "class", "drm", fmt.Sprintf("renderD%d", p.Render), "device")); wrong == nil {
			values = own
		}
		if p.VRAM > 0 {
			values = append(slices.Clone(values), telemetry.Value{Name: "memory_total_bytes", Value: float64(p.VRAM)})
		}
		metrics = append(metrics, metricsOf(p.ID, values)...)
	}
	return metrics, err
}

// counted are the errors that were counted last.
func (s sample) counted() []*sdk.Metric {
	var metrics []*sdk.Metric
	add := func(name string, n ras.Count, labels map[string]string) {
		if n.Known {
			m := sdk.Counter(s.gpu.ID, name, float64(n.N))
			m.Labels = labels
			metrics = append(metrics, m)
		}
	}
	for _, block := range slices.Sorted(maps.Keys(s.counts.Blocks)) {
		e := s.counts.Blocks[block]
		add("ecc_errors_total", e.Correctable, map[string]string{"block": block, "type": "corrected"})
		add("ecc_errors_total", e.Uncorrectable, map[string]string{"block": block, "type": "uncorrected"})
		add("ecc_errors_total", e.Deferred, map[string]string{"block": block, "type": "deferred"})
	}
	add("xgmi_errors_total", s.counts.XGMI, nil)
	if p := s.counts.Pages; p.Known {
		for state, n := range map[string]uint64{"retired": p.Retired, "pending": p.Pending + p.Failed} {
			m := sdk.Gauge(s.gpu.ID, "memory_bad_pages", float64(n))
			m.Labels = map[string]string{"state": state}
			metrics = append(metrics, m)
		}
	}
	return metrics
}

func metricsOf(device string, values []telemetry.Value) []*sdk.Metric {
	metrics := make([]*sdk.Metric, 0, len(values))
	for _, v := range values {
		m := sdk.Gauge(device, v.Name, v.Value)
		if v.Counter {
			m = sdk.Counter(device, v.Name, v.Value)
		}
		if v.Label != "" {
			m.Labels = map[string]string{v.Label: v.LabelValue}
		}
		metrics = append(metrics, m)
	}
	return metrics
}
