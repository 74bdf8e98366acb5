package amd

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/amd/ras"
	"github.com/accelmux/accelmux/backends/amd/telemetry"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Measure implements [engine.Measurer] with the sensors of a card and of its partitions. Values
// of a partitioned card have its ID, which is the partitions' parent.
func (s *source) Measure(u engine.Unit, device string) []*sdk.Metric {
	g, sysfs := cardIn(u), s.cfg.host.Sysfs
	m, err := telemetry.Card{Dir: filepath.Join(sysfs, u.Dir), DataCentre: strings.HasPrefix(g.Family, "CDNA")}.Read()
	if err != nil {
		s.backend.log.Debug("not all telemetry could be read", "device", device, "error", err)
	}
	metrics := metricsOf(device, m.Values)
	if !g.Partitioned() {
		return metrics
	}
	for _, p := range g.Partitions {
		var values []telemetry.Value
		if p.Index < len(m.Partitions) {
			values = m.Partitions[p.Index]
		} else if own, err := telemetry.ReadPartition(filepath.Join(sysfs, "class", "drm", fmt.Sprintf("renderD%d", p.Render), "device")); err == nil {
			values = own
		}
		if p.VRAM > 0 {
			values = append(slices.Clone(values), telemetry.Value{Name: "memory_total_bytes", Value: float64(p.VRAM)})
		}
		metrics = append(metrics, metricsOf(p.ID, values)...)
	}
	return metrics
}

// Count implements [engine.Counter] with the errors that were counted last.
func (v vendor) Count(u *engine.KnownUnit, device string) []*sdk.Metric {
	var metrics []*sdk.Metric
	add := func(name string, n ras.Count, labels map[string]string) {
		if n.Known {
			m := sdk.Counter(device, name, float64(n.N))
			m.Labels = labels
			metrics = append(metrics, m)
		}
	}
	counters := memoryOf(u).counters
	for _, block := range slices.Sorted(maps.Keys(counters.Blocks)) {
		e := counters.Blocks[block]
		add("ecc_errors_total", e.Correctable, map[string]string{"block": block, "type": "corrected"})
		add("ecc_errors_total", e.Uncorrectable, map[string]string{"block": block, "type": "uncorrected"})
		add("ecc_errors_total", e.Deferred, map[string]string{"block": block, "type": "deferred"})
	}
	if v.cfg.health.XGMI != ignore {
		add("xgmi_errors_total", counters.XGMI, nil)
	}
	if p := counters.Pages; p.Known {
		for state, n := range map[string]uint64{"retired": p.Retired, "pending": p.Pending + p.Failed} {
			m := sdk.Gauge(device, "memory_bad_pages", float64(n))
			m.Labels = map[string]string{"state": state}
			metrics = append(metrics, m)
		}
	}
	return metrics
}

// Problems implements [engine.Counter].
func (vendor) Problems(*engine.KnownUnit) []string { return nil }

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
