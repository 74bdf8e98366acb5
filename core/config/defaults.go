package config

import (
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/sandbox"
)

// The defaults. The types' fields explain them.
const (
	// CommandPrefix and a backend's name make its default command.
	CommandPrefix = "accelmux-backend-"

	DefaultHeartbeat               = 10 * time.Second
	DefaultHoldover                = 5 * time.Minute
	DefaultRecoveryDelay           = 3 * time.Second
	DefaultReset                   = ResetAuto
	DefaultSample                  = SampleAuto
	DefaultSampleInterval          = 10 * time.Second
	DefaultAPI                     = APIDevicePlugin
	DefaultReplicas                = 1
	DefaultMaxReplicasPerContainer = 1
	DefaultInjection               = InjectAuto
	DefaultAnnotationPrefix        = "cdi.k8s.io"
	DefaultRegistration            = RegisterSocket
	DefaultResourceReset           = ResetDevicesNever
	DefaultAllocationPolicy        = AllocateBestLinks
	DefaultLinks                   = LinksSum
	DefaultPIDs                    = 512 // the agent ends a backend with more
	DefaultCPUWeight               = 100
)

// shipped are the names of accelmux's own backend programs, without CommandPrefix.
var shipped = []string{"amd", "device", "fpga", "mock", "nvidia"}

// DefaultFeatures returns the default of Backend.Features: attributes and capacities that
// identify a device, by the names that backends use.
func DefaultFeatures() []string {
	return []string{
		"productName", "model", "family", "architecture", "sharing", "memory", "driverVersion", "firmware",
		"profile", "computePartition", "memoryPartition",
	}
}

// fillDefaults sets every field that has a default and that the file does not set (see given,
// by path). No other code sets defaults. It runs once, before validation, so that defaults
// obey the same rules as the file.
//
// Null does not set a field; zero and an empty list do: "holdover: 0s" means no holdover, and
// "devices: []" no devices.
func fillDefaults(c *NodeConfig, given func(path string) bool) {
	for i := range c.Profiles {
		p, at := &c.Profiles[i], itemPath("profiles", i)
		for j := range p.Backends {
			p.Backends[j].fillDefaults(func(field string) bool {
				return given(itemPath(at+".backends", j) + "." + field)
			})
		}
		for j := range p.Resources {
			p.Resources[j].fillDefaults(func(field string) bool {
				return given(itemPath(at+".resources", j) + "." + field)
			})
		}
	}
}

// DefaultAcceptance returns the default of EditPolicy.Declared for a backend with a command.
func DefaultAcceptance(command string) Acceptance {
	if name, ok := strings.CutPrefix(command, CommandPrefix); ok && slices.Contains(shipped, name) {
		return AcceptDeclared
	}
	return RefuseDeclared
}

func (b *Backend) fillDefaults(given func(field string) bool) {
	if !given("command") {
		b.Command = CommandPrefix + b.Name
	}
	if !given("settings") {
		b.Settings = Settings("{}")
	}
	if !given("heartbeat") {
		b.Heartbeat = Duration(DefaultHeartbeat)
	}
	if !given("holdover") {
		b.Holdover = Duration(DefaultHoldover)
	}
	if !given("recovery.delay") {
		b.Recovery.Delay = Duration(DefaultRecoveryDelay)
	}
	if !given("recovery.reset") {
		b.Recovery.Reset = DefaultReset
	}
	if !given("allow.declared") {
		b.Allow.Declared = DefaultAcceptance(b.Command)
	}
	if !given("sandbox.mode") {
		b.Sandbox.Mode = sandbox.Auto
	}
	if !given("sandbox.user") {
		b.Sandbox.User = UserAuto
	}
	if !given("sandbox.pids") {
		b.Sandbox.PIDs = DefaultPIDs
	}
	if !given("sandbox.cpuWeight") {
		b.Sandbox.CPUWeight = DefaultCPUWeight
	}
	if !given("features") {
		b.Features = DefaultFeatures()
	}
	if !given("featurePrefix") {
		b.FeaturePrefix = b.Name + FeatureDomainSuffix
	}
	if !given("telemetry.sample") {
		b.Telemetry.Sample = DefaultSample
	}
	if !given("telemetry.interval") {
		b.Telemetry.Interval = Duration(DefaultSampleInterval)
	}
	if !given("dra.driver") {
		b.DRA.Driver = b.Name + DriverDomainSuffix
	}
}

func (r *Resource) fillDefaults(given func(field string) bool) {
	if !given("api") {
		r.API = DefaultAPI
	}
	if !given("replicas") {
		r.Replicas = DefaultReplicas
	}
	// The limit has no meaning without replicas, and the file must not set it either.
	if !given("maxReplicasPerContainer") && r.Replicas > 1 {
		limit := DefaultMaxReplicasPerContainer
		r.MaxReplicasPerContainer = &limit
	}
	if !given("injection") {
		r.Injection = DefaultInjection
	}
	if !given("annotationPrefix") {
		r.AnnotationPrefix = DefaultAnnotationPrefix
	}
	if !given("reset") {
		r.Reset = DefaultResourceReset
	}
	if !given("registration") {
		r.Registration = DefaultRegistration
	}
	if !given("allocation.policy") {
		r.Allocation.Policy = DefaultAllocationPolicy
	}
	if !given("allocation.links") {
		r.Allocation.Links = DefaultLinks
	}
}
