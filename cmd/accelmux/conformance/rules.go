package conformance

import "github.com/accelmux/accelmux/core/sandbox"

// Rule is one rule of the contract.
type Rule struct {
	ID   string `json:"rule"`
	Text string `json:"text"`
}

// The IDs of the rules.
const (
	startedByHand      = "started-by-hand"
	handshake          = "handshake"
	clientCertificate  = "client-certificate"
	healthService      = "health-service"
	configure          = "configure"
	identity           = "identity"
	unknownFields      = "unknown-fields"
	manifestSuffices   = "manifest-suffices"
	attributesRule     = "attributes"
	settingsRefused    = "settings-refused"
	earlierSettings    = "earlier-settings"
	settingsRevision   = "settings-revision"
	firstInventory     = "first-inventory"
	withoutHardware    = "without-hardware"
	watchStream        = "watch-stream"
	watchRate          = "watch-rate"
	newStream          = "new-stream"
	generations        = "generations"
	devices            = "devices"
	deviceEdits        = "device-edits"
	editsInManifest    = "edits-in-manifest"
	stableOrder        = "stable-order"
	stableIDs          = "stable-ids"
	heartbeats         = "heartbeats"
	heartbeatsFromLoop = "heartbeats-from-loop"
	changeReported     = "change-reported"
	prepareIdempotent  = "prepare-idempotent"
	prepareEdits       = "prepare-edits"
	prepareCancelled   = "prepare-cancelled"
	releaseResults     = "release-results"
	releaseUnknown     = "release-unknown"
	resetResults       = "reset-results"
	sampleInterval     = "sample-interval"
	sampleMetrics      = "sample-metrics"
	sampleStopped      = "sample-stopped"
	stdoutClean        = "stdout-clean"
	logLines           = "log-lines"
	sigterm            = "sigterm"
	parentLost         = "parent-lost"
)

// rules are all rules, in the order of the output.
var rules = []Rule{
	{startedByHand, "Without ACCELMUX_BACKEND in its environment, the program prints that it was started by hand and exits with status 1."},
	{handshake, "The program listens on a unix socket in PLUGIN_UNIX_SOCKET_DIR and prints exactly one line: 1|1|unix|<socket path>|grpc|<its certificate>."},
	{clientCertificate, "The server speaks TLS 1.2 or later and accepts only the core's certificate."},
	{healthService, `The server serves grpc.health.v1.Health, where the service "plugin" is SERVING.`},
	{configure, "Configure accepts valid settings within 10 s."},
	{identity, "Configure answers with the name and the version that the manifest has."},
	{unknownFields, "An unknown field must be ignored."},
	{manifestSuffices, "With what its manifest has and nothing else, the backend accepts the settings and reports the same devices, health, attributes and metrics as without a sandbox."},
	{attributesRule, "Devices have only attributes and capacities that the manifest declares, of the declared kinds, values and classes; labels have its prefixes."},
	{settingsRefused, "Settings are accepted as a whole, or refused with a list of field errors."},
	{earlierSettings, "Refused settings leave the earlier ones in force."},
	{settingsRevision, "Accepted settings take effect without a restart: within 10 s a running Watch sends the inventory for them, with their revision."},
	{firstInventory, "Watch sends the whole inventory at once, the first within 10 s; the first event that is no heartbeat is an inventory."},
	{withoutHardware, "A backend that cannot access its hardware sends an inventory and keeps trying."},
	{watchStream, "The Watch stream ends only when the core cancels it."},
	{watchRate, "Watch sends at most 20 messages a second in the long run, and messages of at most 8 MiB."},
	{newStream, "A new Watch stream begins with the inventory."},
	{generations, "The generation counts the inventories of the process, from 1, strictly increasing."},
	{devices, "Devices follow the rules of Inventory and Device."},
	{deviceEdits, "A healthy device that is not potential has at least one edit that is not a joined variable."},
	{editsInManifest, "Edits are limited to what the manifest has for containers."},
	{stableOrder, "Devices are listed in a stable order."},
	{stableIDs, "IDs are stable over restarts."},
	{heartbeats, "Heartbeats come at the interval that WatchRequest asks for; the core acts after three missed ones."},
	{heartbeatsFromLoop, "Heartbeats come from the loop that monitors the hardware: when a device tree hangs, they stop, or an inventory reports it."},
	{changeReported, "Watch sends the inventory again each time anything in it changed."},
	{prepareIdempotent, "Prepare is idempotent: a repeated call for the same holder returns the same result."},
	{prepareEdits, "Prepare returns valid edits of devices of the request; a potential device is listed as made for the holder until Release."},
	{prepareCancelled, "A cancelled call is abandoned immediately: the next call for the device, 5 s later, works."},
	{releaseResults, "Release answers for each device of the request, and is idempotent."},
	{releaseUnknown, "Release succeeds for a holder or a device that the backend does not know."},
	{resetResults, "Reset answers for each device of the request."},
	{sampleInterval, "Sample sends telemetry at once and then at the given interval."},
	{sampleMetrics, "Metrics follow the rules of Metric."},
	{sampleStopped, "Sample ends when it is cancelled, and can be called again with another interval."},
	{stdoutClean, "Nothing is printed on standard output after the handshake."},
	{logLines, "Standard error is the log: a line that is a JSON object has @level (trace, debug, info, warn, error) and @message; any other line is text."},
	{sigterm, "SIGTERM to the process group ends the process within 2 s."},
	{parentLost, "A backend that loses its parent exits."},
}

// Outcome is the result of a rule.
type Outcome string

// The outcomes. Fail and NotApplicable have a reason, and Pass has a remark if the check cannot tell right from wrong.
const (
	Pass          Outcome = "pass"
	Fail          Outcome = "fail"
	NotApplicable Outcome = "not applicable"
)

// Result is the verdict on one rule.
type Result struct {
	Rule
	Outcome Outcome `json:"result"`
	// Why describes how the rule was broken, why it is not applicable, or what was seen that may be wrong.
	Why string `json:"why,omitempty"`
}

// Report is the verdict on a program.
type Report struct {
	Program string `json:"program"`
	// Name and Version are those of the manifest.
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	// Containers is what the manifest has for containers with the settings, as lists of the configuration's allow, in YAML,
	// and Unused what of it no edits of the devices here have contained; "" without devices.
	Containers string `json:"containers,omitempty"`
	Unused     string `json:"unused,omitempty"`
	// Process is what the process gets, as lists of the configuration's allow.process, in YAML.
	Process string `json:"process,omitempty"`
	// Sandbox is what was in force of the program's sandbox; without measures if there was none.
	Sandbox sandbox.Report `json:"sandbox,omitzero"`
	Results []Result       `json:"rules"`
}

// Failed returns the number of broken rules.
func (r Report) Failed() int {
	n := 0
	for _, result := range r.Results {
		if result.Outcome == Fail {
			n++
		}
	}
	return n
}
