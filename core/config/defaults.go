package config

import (
	"strings"
	"time"
)

// The defaults. Their reasons are with the fields of the types.
const (
	// CommandPrefix and a backend's name make its default command.
	CommandPrefix = "accelmux-backend-"

	DefaultHeartbeat               = 10 * time.Second
	DefaultHoldover                = 5 * time.Minute
	DefaultRecoveryDelay           = 3 * time.Second
	DefaultReset                   = ResetAuto
	DefaultSample                  = SampleAuto
	DefaultSampleInterval          = 10 * time.Second
	DefaultReplicas                = 1
	DefaultMaxReplicasPerContainer = 1
	DefaultInjection               = InjectAuto
	DefaultRegistration            = RegisterSocket
	DefaultAllocationPolicy        = AllocateBestLinks
	DefaultLinks                   = LinksSum
)

// DefaultFeatures are the attributes and capacities that say what a device is, by
// the names that backends give to them.
func DefaultFeatures() []string {
	return []string{
		"productName", "model", "family", "architecture", "sharing", "memory", "driverVersion", "firmware",
		"profile", "computePartition", "memoryPartition",
	}
}

// fillDefaults completes a configuration: it sets every field that the file
// gives no value for (given tells, by path) and that has a default. It is the
// only place where a default is set, and runs once, before validation, so that
// defaults obey the same rules as what people write.
//
// A field is given when it has a value; one that is null is not, and a zero or
// an empty list is. So "holdover: 0s" means none and "devices: []" nothing.
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
	if kind := strings.TrimPrefix(b.Command, CommandPrefix); !given("allow.presets") && kind != b.Command {
		if _, known := presets[kind]; known {
			b.Allow.Presets = []string{kind}
		}
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
}

func (r *Resource) fillDefaults(given func(field string) bool) {
	if !given("replicas") {
		r.Replicas = DefaultReplicas
	}
	// A limit on the replicas of what is not shared would say nothing, so it
	// stays unset there, as it must in the file.
	if !given("maxReplicasPerContainer") && r.Replicas > 1 {
		limit := DefaultMaxReplicasPerContainer
		r.MaxReplicasPerContainer = &limit
	}
	if !given("injection") {
		r.Injection = DefaultInjection
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
