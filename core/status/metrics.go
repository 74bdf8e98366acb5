package status

import (
	"regexp"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/deviceplugin"
)

// metrics computes the metrics from the report at scrape time, so that nothing is counted
// twice or stored for them.
type metrics struct{ source Source }

// newRegistry returns all metrics: of the report, of the tally, of the process, and more.
func newRegistry(source Source, tally *Tally, more ...prometheus.Collector) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	// The goal of the next collection is left out: it is not what is in use.
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

// giver sends the value of a family to a scrape, with the values of all its labels.
type giver func(f *family, value float64, labels ...string)

// Collect implements prometheus.Collector.
func (m metrics) Collect(out chan<- prometheus.Metric) {
	report := m.source.Report()
	give := func(f *family, value float64, labels ...string) { out <- f.metric(value, labels) }
	collectAgent(give, report)
	for _, b := range report.Backends {
		collectBackend(give, b)
	}
	for _, r := range report.Resources {
		give(resourceServing, truth(r.State == string(deviceplugin.StateServing)), r.Name)
		if r.API != string(config.APIDRA) {
			give(resourceRegistrations, float64(r.Registrations), r.Name)
		}
		give(resourceUnits, float64(r.Units), r.Name)
		give(resourceHealthy, float64(r.Healthy), r.Name)
		give(resourceAllocated, float64(r.Allocated), r.Name)
	}
	for _, d := range report.Drivers {
		give(driverRegistered, truth(d.Registered), d.Name)
		give(driverPublished, truth(d.Published), d.Name)
		give(driverDevices, float64(d.Devices), d.Name)
		give(driverSlices, float64(d.Slices), d.Name)
		give(driverClaims, float64(d.Claims), d.Name)
	}
	m.source.Healths(func(d DeviceHealth) {
		give(deviceHealthy, truth(d.Healthy), d.Backend, d.ID, d.Resource)
		if d.Fault != "" {
			give(deviceFault, 1, d.Backend, d.ID, d.Fault)
		}
	})
}

// collectAgent gives the metrics without labels of a backend, resource or device.
func collectAgent(give giver, report Report) {
	give(buildInfo, 1, report.Version, runtime.Version())
	give(ready, truth(len(report.NotReady) == 0))
	give(problems, float64(len(report.Problems)))
	if report.Config.Profile != "" {
		give(profileInfo, 1, report.Config.Profile)
	}
	give(profileUnchosen, truth(report.Config.Unchosen != ""))
	give(profileWaiting, truth(report.Config.Waits != ""))
	give(configRefused, truth(report.Config.Refused != ""))
	give(configApplied, float64(report.Config.AppliedAt.UnixMilli())/1000)
	give(kubeletMissing, truth(report.KubeletMissing != ""))
	if report.Cluster != nil {
		give(clusterWatching, truth(report.Cluster.Watching))
		give(clusterEvents, truth(report.Cluster.EventsFailing))
	}
}

func collectBackend(give giver, b Backend) {
	give(backendInfo, 1, b.Name, b.Vendor, b.Version)
	for _, state := range backendStates {
		give(backendState, truth(b.State == state), b.Name, state)
	}
	give(backendRestarts, float64(b.Restarts), b.Name)
	if b.Sandbox != nil {
		for _, m := range b.Sandbox.Measures {
			give(backendMeasure, truth(m.InForce), b.Name, m.Name)
		}
	}
	give(backendDevices, float64(b.Devices), b.Name)
}

// truth is the value of a metric that is 1 or 0.
func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
