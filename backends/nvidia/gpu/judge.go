package gpu

import (
	"fmt"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

// scopeOf returns what an event affects: a MIG device, if the event is an XID that names an existing
// one and does not affect the whole GPU; otherwise the whole GPU. Other events name no MIG device
// (nvmlEventData_t in nvml.h). Some libraries send the instances 0 and 0 for a GPU without MIG.
func (m *Memory) scopeOf(e driver.Event, checks Checks) scope {
	named := scope{e.GPUInstance, e.ComputeInstance}
	if e.Type == driver.EventXID && m.hasInstance(named) && !checks.Lookup(e.XID).WholeGPU {
		return named
	}
	return whole
}

// Event takes an event of the GPU, after the reading that followed it, and stores the fault that it reports, if it is one by
// the GPU's recovery action. note is a message for the log; "" for none.
func (m *Memory) Event(e driver.Event, checks Checks) (note string) {
	if e.Time.Before(m.renewed) {
		return "it is from before the GPU was reset, or its driver loaded again"
	}
	action, scope := m.recoveryAction(), m.scopeOf(e, checks)
	if m.Began.Before(e.Time) {
		action = nil // it may be from before the event
	}
	var health *sdk.Health
	if e.Type == driver.EventXID {
		m.xids.add(e.XID)
		health, note = checks.Judge(e.XID, action)
	} else {
		health, note = judgeOther(e, action, checks)
	}
	if health != nil {
		m.answered, m.answering = false, time.Time{}
	}
	if before := m.faults[scope]; health != nil && sdk.Graver(before.health, health) == health {
		m.faults[scope] = fault{health: health, at: e.Time, despite: action != nil && *action == driver.RecoveryNone}
	}
	return note
}

// judgeOther returns the fault of an event other than an XID; nil if it is none. The event is no
// fault if the driver reports that no recovery action is needed.
func judgeOther(e driver.Event, action *driver.RecoveryAction, checks Checks) (fault *sdk.Health, note string) {
	kinds := map[driver.EventType]struct {
		recovery sdk.Recovery
		message  string
	}{
		driver.EventECC:              {sdk.RecoveryReset, "an uncorrectable memory error"},
		driver.EventRetirementFailed: {sdk.RecoveryReplacement, "memory that is bad could not be retired"},
		driver.EventFatalPoison:      {sdk.RecoveryReset, "poisoned data was used and could not be contained"},
		driver.EventUnavailable:      {sdk.RecoveryReboot, "the driver reports that the GPU cannot be used any more"},
	}
	kind, known := kinds[e.Type]
	switch {
	case e.Type == driver.EventPoison:
		return nil, "poisoned data was contained: the program that used it ends, the GPU is healthy"
	case !known || checks.Off() || checks.Ignore[string(e.Type)]:
		return nil, ""
	case action != nil && *action == driver.RecoveryNone:
		return nil, kind.message + ": the driver needs no recovery action"
	}
	return sdk.Fault(string(e.Type), kind.recovery, fmt.Sprintf("%s (event of NVIDIA's driver)", kind.message)), ""
}
