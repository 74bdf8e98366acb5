package status

import (
	"regexp"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// metrics makes the metrics from the report at scrape time, so that nothing is
// counted twice or kept for it.
type metrics struct{ source Source }

// newRegistry has all metrics: of the report, of the tally, of the process, and more.
func newRegistry(source Source, tally *Tally, more ...prometheus.Collector) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	// When the next collection is due says little of what is in use.
	live := collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)})
	registry.MustRegister(metrics{source}, collectors.NewGoCollector(live),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(tally.collectors()...)
	registry.MustRegister(more...)
	return registry
}

// Describe implements prometheus.Collector.
func (m metrics) Describe(out chan<- *prometheus.Desc) {
	for _, f := range families {
		out <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (m metrics) Collect(out chan<- prometheus.Metric) {
	report := m.source.Report()
	c := newCollection(out)
	collectAgent(c, report)
	for _, b := range report.Backends {
		collectBackend(c, b)
	}
	for _, r := range report.Resources {
		c.give(resourceServing, truth(r.State == resourceServed), r.Name)
		c.give(resourceRegistrations, float64(r.Registrations), r.Name)
		c.give(resourceUnits, float64(r.Units), r.Name)
		c.give(resourceHealthy, float64(r.Healthy), r.Name)
		c.give(resourceAllocated, float64(r.Allocated), r.Name)
	}
	m.source.Healths(func(d DeviceHealth) {
		c.give(deviceHealthy, truth(d.Healthy), d.Backend, d.ID, d.Resource)
		if d.Fault != "" {
			c.give(deviceFault, 1, d.Backend, d.ID, d.Fault)
		}
	})
}

// collectAgent has what there is once.
func collectAgent(c *collection, report Report) {
	c.give(buildInfo, 1, report.Version, runtime.Version())
	c.give(ready, truth(len(report.NotReady) == 0))
	c.give(problems, float64(len(report.Problems)))
	if report.Config.Profile != "" {
		c.give(profileInfo, 1, report.Config.Profile)
	}
	c.give(profileUnchosen, truth(report.Config.Unchosen != ""))
	c.give(profileWaiting, truth(report.Config.Waits != ""))
	c.give(configRefused, truth(report.Config.Refused != ""))
	c.give(configApplied, float64(report.Config.AppliedAt.UnixMilli())/1000)
	c.give(kubeletMissing, truth(report.KubeletMissing != ""))
	if report.Cluster != nil {
		if watching := report.Cluster.Watching; watching != nil {
			c.give(clusterWatching, truth(*watching))
		}
		c.give(clusterEvents, truth(report.Cluster.EventsFailing))
	}
}

func collectBackend(c *collection, b Backend) {
	c.give(backendInfo, 1, b.Name, b.Vendor, b.Version)
	for _, state := range backendStates {
		c.give(backendState, truth(b.State == state), b.Name, state)
	}
	c.give(backendRestarts, float64(b.Restarts), b.Name)
	c.give(backendDevices, float64(b.Devices), b.Name)
}

// truth is how a metric says yes or no.
func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
