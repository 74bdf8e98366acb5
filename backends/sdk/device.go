package sdk

import (
	"strings"
	"unicode/utf8"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// The contract's own types, under shorter names; backend.proto documents every
// field and its limits.
type (
	// Device is a device that a container can be given.
	Device = backendv1.Device
	// Health is the current health of a device; see [Healthy], [Fault], [Recovered] and
	// [Unknown].
	Health = backendv1.Health
	// Attribute is a typed value for selectors.
	Attribute = backendv1.Attribute
	// Link is the distance to another device.
	Link = backendv1.Link
	// Edits are what a container gets with a device.
	Edits = backendv1.ContainerEdits
	// DeviceNode is a device node in the container.
	DeviceNode = backendv1.DeviceNode
	// NetDevice is a network interface that is moved into the container.
	NetDevice = backendv1.NetDevice
	// Mount is a bind mount of a host path.
	Mount = backendv1.Mount
	// CounterSet has amounts that devices consume.
	CounterSet = backendv1.CounterSet
	// NodeLabel is a label of the node as the vendor's own tools name it.
	NodeLabel = backendv1.NodeLabel
	// Unread is what the backend could not look at.
	Unread = backendv1.Unread
	// Metric is one value of one device; see [Gauge] and [Counter].
	Metric = backendv1.Metric
	// ResetResult is the result of a reset for one device.
	ResetResult = backendv1.ResetResult
	// Recovery is the least that must happen before a faulted device works again.
	Recovery = backendv1.Recovery
)

// The least that must happen before a faulted device works again, from the
// lightest to the gravest.
const (
	RecoverySelf        = backendv1.Recovery_RECOVERY_SELF
	RecoveryReset       = backendv1.Recovery_RECOVERY_RESET
	RecoveryReboot      = backendv1.Recovery_RECOVERY_REBOOT
	RecoveryReplacement = backendv1.Recovery_RECOVERY_REPLACEMENT
)

// Hook is a call that a device can request.
type Hook = backendv1.Hook

// The calls that a device can request.
const (
	HookPrepare = backendv1.Hook_HOOK_PREPARE
	HookRelease = backendv1.Hook_HOOK_RELEASE
)

// Limits of the contract on texts, in bytes.
const (
	maxAttribute = 64
	maxMessage   = 1024
	maxProblems  = 64
)

// String returns a string attribute. Hardware has long and odd names, and a device must not be
// lost for one: invalid UTF-8 is replaced, and text beyond 64 bytes is cut off.
func String(v string) *Attribute {
	return &Attribute{Value: &backendv1.Attribute_StringValue{StringValue: clip(v, maxAttribute)}}
}

// Int is an integer attribute.
func Int(v int64) *Attribute {
	return &Attribute{Value: &backendv1.Attribute_IntValue{IntValue: v}}
}

// Bool is a boolean attribute.
func Bool(v bool) *Attribute {
	return &Attribute{Value: &backendv1.Attribute_BoolValue{BoolValue: v}}
}

// Version returns a semantic version, major.minor.patch. The core leaves out a device with any
// other text here; use [String] for versions of another form.
func Version(v string) *Attribute {
	return &Attribute{Value: &backendv1.Attribute_VersionValue{VersionValue: v}}
}

// Healthy reports that there is no new fault. It clears faults of [RecoverySelf] and no others:
// those need [Recovered], [Cleared] or a Reset that helped.
func Healthy() *Health {
	return &Health{State: backendv1.HealthState_HEALTH_STATE_HEALTHY}
}

// Recovered reports that the backend checked the device and has evidence that no fault is left.
// It clears every earlier fault.
func Recovered() *Health {
	return &Health{State: backendv1.HealthState_HEALTH_STATE_HEALTHY, Recovered: true}
}

// What a fault affects, from the lightest to the gravest; see the contract's Reach. A fault
// without one has ReachDevice.
const (
	ReachNewHolders = backendv1.Reach_REACH_NEW_HOLDERS
	ReachDevice     = backendv1.Reach_REACH_DEVICE
	ReachHolders    = backendv1.Reach_REACH_HOLDERS
)

// Fault reports that the device must not be given to new containers. The code is a short name
// such as "xid-79"; the message says to the operator what happened and what to do, and is cut off
// after 1,024 bytes. Set the field Reach of the result if more or less than the device is
// affected.
func Fault(code string, recovery Recovery, message string) *Health {
	return &Health{
		State:    backendv1.HealthState_HEALTH_STATE_UNHEALTHY,
		Code:     code,
		Message:  clip(message, maxMessage),
		Recovery: recovery,
	}
}

// Cleared adds to any health the codes of earlier faults for whose end there is evidence; other
// faults stay.
func Cleared(h *Health, codes ...string) *Health {
	h.ClearedCodes = append(h.ClearedCodes, codes...)
	return h
}

// Unknown reports that the backend cannot determine the health. It is no fault, and does not
// change earlier faults.
func Unknown(message string) *Health {
	return &Health{State: backendv1.HealthState_HEALTH_STATE_UNKNOWN, Message: clip(message, maxMessage)}
}

// Nodes returns edits that give a container these device nodes, under the same paths as on the
// host, to read and write.
func Nodes(paths ...string) *Edits {
	e := &Edits{}
	for _, p := range paths {
		e.DeviceNodes = append(e.DeviceNodes, &DeviceNode{Path: p})
	}
	return e
}

// JoinedEnv adds a variable to e. If a container gets several devices that set it, the values
// are joined by the separator, such as ",". All devices that a container may get together must
// use the same separator.
//
// The joined value depends on the container, so a CDI device cannot have it: the core passes it
// in its answer to kubelet. A device needs another edit beside such variables;
// [Reporter.Publish] leaves out one that has none, with a problem.
func JoinedEnv(e *Edits, name, value, separator string) {
	if e.Env == nil {
		e.Env = map[string]string{}
	}
	if e.EnvSeparators == nil {
		e.EnvSeparators = map[string]string{}
	}
	e.Env[name], e.EnvSeparators[name] = value, separator
}

// Gauge returns a metric that goes up and down. The name ends in its base unit, such as
// temperature_celsius; the contract's Metric has all rules, and a metric that breaks one is left
// out.
func Gauge(device, name string, value float64) *Metric {
	return &Metric{DeviceId: device, Name: name, Kind: backendv1.MetricKind_METRIC_KIND_GAUGE, Value: value}
}

// Counter returns a metric that only grows. The name ends in _total.
func Counter(device, name string, value float64) *Metric {
	return &Metric{DeviceId: device, Name: name, Kind: backendv1.MetricKind_METRIC_KIND_COUNTER, Value: value}
}

// clip returns s as valid UTF-8 of at most limit bytes.
func clip(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// Graver returns the one of two healths that must not be hidden by the other: a fault before
// anything else, of two faults the one with the graver recovery, and of equal ones the first.
// Nil means that nothing is known.
func Graver(a, b *Health) *Health {
	if rank(b) > rank(a) {
		return b
	}
	return a
}

func rank(h *Health) int32 {
	switch {
	case h == nil:
		return -2
	case h.GetState() == backendv1.HealthState_HEALTH_STATE_UNHEALTHY:
		return int32(h.GetRecovery())
	case h.GetState() == backendv1.HealthState_HEALTH_STATE_HEALTHY:
		return -1
	}
	return 0 // unknown
}
