package status

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Tally counts calls and their durations, for the metrics. Its methods are safe for
// concurrent use and do not block.
type Tally struct {
	allocations, prepares, releases, resets, choices, claimPrepares, claimUnprepares *prometheus.CounterVec
	allocation, prepare, choice, claimPrepare, claimUnprepare                        prometheus.Histogram
}

// tallied are the metrics of a Tally.
var tallied = []struct {
	name, help string
	labels     []string
}{
	{"allocations_total", "Allocate calls of kubelet that were answered; result is success or error.", []string{"resource", "result"}},
	{"prepares_total", "PreStartContainer calls of kubelet: one for each start of a container whose devices need Prepare.", []string{"resource", "result"}},
	{"releases_total", "Releases of a device after its container ended; a release that failed is tried again.", []string{"backend", "result"}},
	{"resets_total", "Resets of groups of faulted devices; result is error if a device did not recover.", []string{"backend", "result"}},
	{"allocation_duration_seconds", "Histogram: how long Allocate took.", nil},
	{"prepare_duration_seconds", "Histogram: how long PreStartContainer took; kubelet gives up after 30 s.", nil},
	{
		"preferred_allocations_total",
		"Choices of devices for a container; method is enumeration (all sets were compared), hierarchy (of many devices, just as exact), greedy (another set may be better), or order where there was no choice.",
		[]string{"resource", "method"},
	},
	{"preferred_allocation_duration_seconds", "Histogram: how long a choice took.", nil},
	{"claim_prepares_total", "Claims that a driver prepared for kubelet, which repeats calls; result is success or error.", []string{"driver", "result"}},
	{"claim_unprepares_total", "Claims that a driver unprepared for kubelet, which repeats calls; result is success or error.", []string{"driver", "result"}},
	{"claim_prepare_duration_seconds", "Histogram: how long the preparation of a claim took; kubelet gives up after 45 s.", nil},
	{"claim_unprepare_duration_seconds", "Histogram: how long it took to unprepare a claim; kubelet gives up after 45 s.", nil},
}

// NewTally makes a Tally with nothing counted.
func NewTally() *Tally {
	vector := func(i int) *prometheus.CounterVec {
		c := tallied[i]
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + c.name, Help: c.help}, c.labels)
	}
	histogram := func(i int, buckets []float64) prometheus.Histogram {
		c := tallied[i]
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: prefix + c.name, Help: c.help, Buckets: buckets})
	}
	times := func(least float64, count int) []float64 { return prometheus.ExponentialBuckets(least, 4, count) }
	return &Tally{
		allocations: vector(0), prepares: vector(1), releases: vector(2), resets: vector(3), choices: vector(6),
		// Up to 26 s: it may wait for a release. And up to 66 s.
		allocation: histogram(4, times(0.0001, 10)), prepare: histogram(5, times(0.001, 9)),
		choice:        histogram(7, times(0.000004, 10)),
		claimPrepares: vector(8), claimUnprepares: vector(9),
		claimPrepare: histogram(10, times(0.001, 9)), claimUnprepare: histogram(11, times(0.001, 9)),
	}
}

// Allocated counts an answered Allocate call.
func (t *Tally) Allocated(resource string, took time.Duration, err error) {
	t.allocations.WithLabelValues(resource, result(err)).Inc()
	t.allocation.Observe(took.Seconds())
}

// Prepared counts an answered PreStartContainer call.
func (t *Tally) Prepared(resource string, took time.Duration, err error) {
	t.prepares.WithLabelValues(resource, result(err)).Inc()
	t.prepare.Observe(took.Seconds())
}

// Chosen counts a choice of units for a container.
func (t *Tally) Chosen(resource, method string, took time.Duration) {
	t.choices.WithLabelValues(resource, method).Inc()
	t.choice.Observe(took.Seconds())
}

// ClaimPrepared counts a claim that kubelet called a driver to prepare.
func (t *Tally) ClaimPrepared(driver string, took time.Duration, err error) {
	t.claimPrepares.WithLabelValues(driver, result(err)).Inc()
	t.claimPrepare.Observe(took.Seconds())
}

// ClaimUnprepared counts a claim that kubelet called a driver to unprepare.
func (t *Tally) ClaimUnprepared(driver string, took time.Duration, err error) {
	t.claimUnprepares.WithLabelValues(driver, result(err)).Inc()
	t.claimUnprepare.Observe(took.Seconds())
}

// Released counts a release of a device after the end of a container that had it.
func (t *Tally) Released(backend string, err error) {
	t.releases.WithLabelValues(backend, result(err)).Inc()
}

// Reset counts a reset of a group of devices.
func (t *Tally) Reset(backend string, err error) {
	t.resets.WithLabelValues(backend, result(err)).Inc()
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "success"
}

// collectors are the Tally's parts.
func (t *Tally) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		t.allocations, t.prepares, t.releases, t.resets, t.choices, t.allocation, t.prepare, t.choice,
		t.claimPrepares, t.claimUnprepares, t.claimPrepare, t.claimUnprepare,
	}
}
