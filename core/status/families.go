package status

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// prefix begins the name of every metric of ours.
const prefix = "accelmux_"

// family is one metric with all its label values. README.md has a table of them
// all, which a test compares with this file.
type family struct {
	name, help string
	labels     []string
	desc       *prometheus.Desc
	kind       prometheus.ValueType
}

// families are the metrics that are computed at scrape time, in the order of the table.
var families []*family

func newFamily(kind prometheus.ValueType, name, help string, labels []string) *family {
	f := &family{name: prefix + name, help: help, labels: labels, kind: kind}
	f.desc = prometheus.NewDesc(f.name, help, labels, nil)
	families = append(families, f)
	return f
}

func gauge(name, help string, labels ...string) *family {
	return newFamily(prometheus.GaugeValue, name, help, labels)
}

func counter(name, help string, labels ...string) *family {
	return newFamily(prometheus.CounterValue, name, help, labels)
}

// The metrics that are computed from the report at scrape time. Label values are bounded: names come
// from the configuration, devices and fault codes from the inventory, which bounds
// both, and a device has the series of one fault at most.
var (
	buildInfo = gauge("build_info", "1, with the version of the running agent.", "version", "go_version")
	ready     = gauge("ready", "1 if every backend of the profile has reported, kubelet has every resource and driver from this agent and the API server has accepted the devices of every driver, or if no profile is for this node.")
	problems  = gauge("problems", "Number of problems that accelmux status reports.")

	profileInfo     = gauge("profile_info", "1, with the profile in force; absent while none is.", "profile")
	profileUnchosen = gauge("profile_unchosen", "1 if no profile can be chosen; what ran before stays in force. 0 where no profile is for this node and none ran before.")
	profileWaiting  = gauge("profile_switch_waiting", "1 while a switch to another profile or configuration waits.")
	configRefused   = gauge("config_refused", "1 if the configuration file is refused or missing; the last good one stays in force.")
	configApplied   = gauge("config_applied_timestamp_seconds", "When the configuration in force was applied, in seconds since 1970.")

	kubeletMissing = gauge("kubelet_missing", "1 if kubelet's directory or socket has been missing for half a minute.")

	clusterWatching = gauge("apiserver_watching", "1 if the Node is watched now, for its labels and cordoned devices.")
	clusterEvents   = gauge("apiserver_events_failing", "1 while Events cannot be written; absent without an API server.")

	backendInfo     = gauge("backend_info", "1, with the vendor and version that the backend reports.", "backend", "vendor", "version")
	backendState    = gauge("backend_state", "1 for the state that the backend is in, 0 for the others.", "backend", "state")
	backendRestarts = counter("backend_restarts_total", "Processes of the backend after the first one, but for those that replace one to get more rights.", "backend")
	backendMeasure  = gauge("backend_sandbox_measure", "1 if the measure of the sandbox of the backend's process is in force, 0 if not; accelmux status -o yaml has the reasons. Absent while the process does not run, or has no sandbox.", "backend", "measure")
	backendDevices  = gauge("backend_devices", "Devices in the backend's last inventory.", "backend")

	resourceServing       = gauge("resource_serving", "1 if kubelet has accepted the resource and reads its list; with dynamic resource allocation, if kubelet has accepted the driver and the API server its devices.", "resource")
	resourceRegistrations = counter("resource_registrations_total", "Number of times that kubelet accepted the resource; more than one means restarts of kubelet or broken streams. Absent with dynamic resource allocation.", "resource")
	resourceUnits         = gauge("resource_units", "Units in the list that kubelet gets; with dynamic resource allocation, devices.", "resource")
	resourceHealthy       = gauge("resource_healthy_units", "Units of them that are healthy.", "resource")
	resourceAllocated     = gauge("resource_allocated_units", "Units of them that containers or claims hold, as far as kubelet has reported them.", "resource")

	driverRegistered = gauge("driver_registered", "1 if kubelet has accepted a driver for dynamic resource allocation.", "driver")
	driverPublished  = gauge("driver_published", "1 if the API server has accepted the ResourceSlices of the driver.", "driver")

	driverDevices = gauge("driver_devices", "Devices that the driver publishes.", "driver")
	driverSlices  = gauge("driver_slices", "ResourceSlices in which it publishes them.", "driver")
	driverClaims  = gauge("driver_claims", "Claims that the driver has prepared or is preparing.", "driver")

	deviceHealthy = gauge("device_healthy", "1 if the device is healthy; resource is empty if none selects it.", "backend", "device", "resource")
	deviceFault   = gauge("device_fault_info", "1 for an unhealthy device, with the code of its gravest fault.", "backend", "device", "code")
)

// metric returns a value of the family with the values of all its labels. If a label is not
// valid UTF-8 the scrape fails.
func (f *family) metric(value float64, labels []string) prometheus.Metric {
	m, err := prometheus.NewConstMetric(f.desc, f.kind, value, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(f.desc, err)
	}
	return m
}

// Named returns the names of the metrics that begin with start, without that: a backend's
// own gauges and counters must not have them.
func Named(start string) []string {
	var names []string
	for _, f := range families {
		if name, ok := strings.CutPrefix(f.name, start); ok {
			names = append(names, name)
		}
	}
	return names
}

// backendStates are those of package supervisor.
var backendStates = []string{"checking", "starting", "configuring", "running", "stopping", "backoff", "quarantined", "misconfigured", "unavailable", "paused"}
