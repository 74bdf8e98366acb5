package gpu

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/xid"
	"github.com/accelmux/accelmux/backends/sdk"
)

// scopeOf returns what an event affects: a MIG device, if the event is an XID that names an existing
// one and does not affect the whole GPU; otherwise the whole GPU. Other events name no MIG device
// (nvmlEventData_t in nvml.h). Some libraries send the instances 0 and 0 for a GPU without MIG.
func (k *Record) scopeOf(e driver.Event, table *xid.Table) scope {
	named := scope{e.GPUInstance, e.ComputeInstance}
	if e.Type == driver.EventXID && k.hasInstance(named) && !table.Lookup(e.XID).WholeGPU {
		return named
	}
	return whole
}

// judge stores the fault that an event reports, if it is one by the GPU's recovery action, which was
// read after the event. note is a message for the log; "" for none.
func (k *Record) judge(e driver.Event, table *xid.Table) (note string) {
	action, scope := k.recoveryAction(), k.scopeOf(e, table)
	var health *sdk.Health
	if e.Type == driver.EventXID {
		k.xids.add(e.XID)
		health, note = table.Judge(e.XID, action)
	} else {
		health, note = judgeOther(e, action, table)
	}
	if health != nil {
		k.initialized, k.answered, k.answering = false, false, time.Time{}
	}
	if before := k.faults[scope]; health != nil && sdk.Graver(before.health, health) == health {
		k.faults[scope] = fault{health: health, despite: action != nil && *action == driver.RecoveryNone}
	}
	return note
}

// judgeOther returns the fault of an event other than an XID; nil if it is none. The event is no
// fault if the driver reports that no recovery action is needed.
func judgeOther(e driver.Event, action *driver.RecoveryAction, table *xid.Table) (fault *sdk.Health, note string) {
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
	case !known || table.Off():
		return nil, ""
	case action != nil && *action == driver.RecoveryNone:
		return nil, kind.message + ": the driver needs no recovery action"
	}
	return sdk.Fault(string(e.Type), kind.recovery, fmt.Sprintf("%s (event of NVIDIA's driver)", kind.message)), ""
}

// clear removes the faults that events reported, if the driver requires no recovery action. Faults
// with despite set stay.
func (k *Record) clear() {
	if k.GPU.Err == nil && k.needsNothing() {
		maps.DeleteFunc(k.faults, func(_ scope, f fault) bool { return !f.despite })
	}
}

// SelfTest is how long a GPU must answer without an error to clear earlier faults: all faults of a
// GPU that was lost, otherwise those with the codes codeGone, codeLost and codeReset. It is the
// evidence on drivers that report no recovery action.
const SelfTest = time.Minute

// SelfTestPause is the longest time between scans during the self-test of a GPU that was lost.
const SelfTestPause = 10 * time.Second

// test continues the self-test of a GPU each time it was read. The driver uses a lost GPU again only
// after it has initialized it from the start. So a GPU that answers for SelfTest, without an
// error event and with none of the conditions, has been initialized, as after a reload
// of the driver.
func (k *Record) test(now time.Time, table *xid.Table) {
	switch err := k.GPU.Err; {
	case errors.Is(err, driver.ErrLost) || errors.Is(err, driver.ErrReset) || k.missing:
		k.wasLost, k.answered, k.answering = true, false, time.Time{}
	case err != nil || len(k.conditions(table)) > 0:
		k.answered, k.answering = false, time.Time{}
	case k.answering.IsZero():
		k.answering = now
	case now.Sub(k.answering) >= SelfTest:
		k.answered = true
		if k.wasLost {
			k.wasLost = false
			k.initialize()
		}
	}
}

// initialize removes the faults that events reported. It is called after a reset of the GPU or a
// reload of its driver, which initialize the GPU.
func (k *Record) initialize() {
	clear(k.faults)
	k.initialized = true
}
