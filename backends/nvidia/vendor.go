package nvidia

import (
	"maps"
	"slices"
	"strconv"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

// vendor implements the engine's questions about GPUs for one configuration. Its methods run
// in the engine's loop.
type vendor struct {
	cfg  *config
	gpus *monitor
}

// reading is the result of a scan for a GPU, part the result for a device. They never
// change.
type reading struct {
	gpu      driver.GPU
	versions versions
	links    []*sdk.Link
	// health is the health of the whole GPU.
	health *sdk.Health
	xids   xidCounts
	// problems are problems of the GPU that are no faults.
	problems []string
}

type part struct {
	instance *driver.Instance // nil: the whole GPU
	health   *sdk.Health
}

// readingOf and partOf return what a scan has stored in a unit and a device.
func readingOf(u engine.Unit) reading {
	r, _ := u.Vendor.(reading)
	return r
}

func partOf(d engine.Device) part {
	p, _ := d.Vendor.(part)
	return p
}

// Faults implements [engine.Vendor]. A fault of the GPU is also one of its MIG devices.
func (v vendor) Faults(d *engine.KnownDevice) (own, shared *sdk.Health) {
	p, r := partOf(d.Read), readingOf(d.Unit.Unit)
	if p.instance == nil {
		shared = v.cfg.sharing(v.gpus.mps).fault(r.gpu)
	}
	return p.health, sdk.Graver(r.health, shared)
}

// Problems implements [engine.Counter].
func (vendor) Problems(u *engine.KnownUnit) []string { return readingOf(u.Unit).problems }

// Sensed implements [engine.Counter]. Sensors are only read for telemetry.
func (vendor) Sensed(*engine.KnownUnit, any) (changed bool) { return false }

// Count implements [engine.Counter]: the XIDs by code.
func (vendor) Count(u *engine.KnownUnit, device string) (metrics []*sdk.Metric) {
	counts := readingOf(u.Unit).xids
	for _, code := range slices.Sorted(maps.Keys(counts)) {
		metrics = append(metrics, metric(device, driver.Value{Name: "xid_errors_total", Counter: true,
			Value: float64(counts[code]), Label: "xid", LabelValue: code}))
	}
	return metrics
}

const (
	// maxXIDs bounds the codes that are counted separately for each GPU; the rest are counted
	// together.
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
