package nvidia

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/xid"
	"github.com/accelmux/accelmux/backends/sdk"
)

// fault is a fault that an event reported.
type fault struct {
	health *sdk.Health
	// despite: settings made it a fault although the driver needs no recovery action. So it
	// is not cleared when the driver needs none.
	despite bool
}

// health returns the health of the whole GPU. A fault of a MIG device that does not exist is the
// GPU's: the device was destroyed, or MIG mode was switched off.
func (k *record) health(table *xid.Table) *sdk.Health {
	worst := k.worst(func(s scope) bool { return !k.hasInstance(s) })
	for _, fault := range k.conditions(table) {
		worst = sdk.Graver(worst, fault)
	}
	return k.concluded(worst, k.gpu.Err)
}

// concluded returns the health of the GPU, or of one of its MIG devices. worst is its gravest
// fault, nil for none; err is why it could not be read.
func (k *record) concluded(worst *sdk.Health, err error) *sdk.Health {
	switch {
	case worst != nil:
		return k.withEvidence(worst)
	case err != nil:
		return sdk.Unknown(err.Error())
	case k.recovered():
		return sdk.Recovered()
	}
	return k.withEvidence(sdk.Healthy())
}

// withEvidence clears the faults that show when a GPU is read, if it has answered for selfTest.
// An earlier process may have reported them.
func (k *record) withEvidence(h *sdk.Health) *sdk.Health {
	if !k.answered || k.content() {
		return h
	}
	return sdk.Cleared(proto.CloneOf(h), codeGone, codeLost, codeReset)
}

// worst returns the gravest fault of the scopes for which of is true; nil if there is none.
func (k *record) worst(of func(scope) bool) *sdk.Health {
	var worst *sdk.Health
	for _, s := range slices.SortedFunc(maps.Keys(k.faults), scope.compare) {
		if of(s) {
			worst = sdk.Graver(worst, k.faults[s].health)
		}
	}
	return worst
}

// hasInstance reports whether s covers MIG devices that the GPU has, and not the whole GPU.
func (k *record) hasInstance(s scope) bool {
	return s != whole && k.gpu.MIGEnabled && slices.ContainsFunc(k.gpu.Instances, s.covers)
}

// concerned returns the scope of an event. Only an XID has a MIG device (nvmlEventData_t
// in nvml.h), and some XIDs affect the whole GPU. Some libraries send the instances 0 and 0
// for a GPU without MIG, so the instance must exist.
func (k *record) concerned(e driver.Event, table *xid.Table) scope {
	named := scope{e.GPUInstance, e.ComputeInstance}
	if e.Type == driver.EventXID && k.hasInstance(named) && !table.Lookup(e.XID).WholeGPU {
		return named
	}
	return whole
}

// instanceHealth returns the health of one MIG device by its own faults alone.
func (k *record) instanceHealth(i driver.Instance) *sdk.Health {
	worst := k.worst(func(s scope) bool { return s != whole && s.covers(i) })
	return k.concluded(worst, i.Err)
}

// Codes of the faults that show only when the GPU is read.
const (
	codeGone  = "gpu-gone"
	codeLost  = "gpu-lost"
	codeReset = "reset-required"
)

// conditions returns the faults that show when the GPU is read.
func (k *record) conditions(table *xid.Table) []*sdk.Health {
	var all []*sdk.Health
	add := func(when bool, code string, recovery sdk.Recovery, message string) {
		if when {
			all = append(all, sdk.Fault(code, recovery, message))
		}
	}
	add(k.missing && k.node == "", codeGone, sdk.RecoveryReboot,
		"the driver does not list the GPU any more, though it is on the PCI bus: see the kernel's log, and reboot the node")
	add(k.missing && k.node != "", codeGone, sdk.RecoverySelf, "the driver does not list the GPU any more: "+k.node)
	if err := k.gpu.Err; err != nil {
		add(errors.Is(err, driver.ErrLost), codeLost, sdk.RecoveryReboot, err.Error())
		add(errors.Is(err, driver.ErrReset), codeReset, sdk.RecoveryReset, err.Error())
	}
	c := k.gpu.Condition
	if demand := table.Demand(c.Recovery); demand != nil {
		all = append(all, demand)
	}
	add(is(c.RemapFailed), "row-remap-failed", sdk.RecoveryReplacement, "the memory has no spare rows left: replace the GPU")
	add(is(c.Unrepairable), "memory-unrepairable", sdk.RecoveryReplacement, "the memory has errors that cannot be repaired: replace the GPU")
	add(is(c.SRAMExceeded), "sram-threshold-exceeded", sdk.RecoveryReplacement,
		"the caches had more uncorrectable errors than NVIDIA's threshold: run NVIDIA's field diagnostic, and replace the GPU if it says so")
	add(is(c.FabricUnhealthy), "fabric-unhealthy", sdk.RecoverySelf,
		"the driver reports that the GPU's NVLink fabric is unhealthy: see nvidia-smi -q (Fabric) and the log of the fabric manager")
	add(is(c.Overheated), "overheated", sdk.RecoverySelf,
		"the hardware slows the GPU down because of heat: check fans, airflow and the room; the GPU is back when it has cooled down")
	const reset = "reset the GPU (nvidia-smi --gpu-reset) when nothing uses it"
	add(is(c.RemapPending), "row-remap-pending", sdk.RecoveryReset, "memory rows are to be remapped: "+reset)
	add(is(c.RetiredPending), "page-retirement-pending", sdk.RecoveryReset, "memory pages are to be retired: "+reset)
	add(is(c.RepairPending), "repair-pending", sdk.RecoveryReset, "a repair is pending: "+reset)
	return all
}

// recovered reports whether there is evidence that earlier faults are cleared: no event reported
// a fault, and the driver needs no recovery action or has initialized the GPU again.
func (k *record) recovered() bool {
	return k.gpu.Err == nil && !k.missing && (k.content() || k.fresh) && len(k.faults) == 0
}

// content reports whether the driver needs no recovery action for the GPU.
func (k *record) content() bool {
	action := k.gpu.Condition.Recovery
	return action != nil && *action == driver.RecoveryNone
}

// heard judges an event by the GPU's state, which was read after it. It returns a message for
// the log; "" for none.
func (k *record) heard(e driver.Event, table *xid.Table) (note string) {
	concerned := k.concerned(e, table)
	action := k.gpu.Condition.Recovery
	if k.gpu.Err != nil {
		action = nil // it was read before the event
	}
	var health *sdk.Health
	if e.Type == driver.EventXID {
		health, note = table.Judge(e.XID, action)
	} else {
		health, note = k.other(e, action, table)
	}
	if health != nil {
		k.fresh, k.answered, k.answering = false, false, time.Time{}
	}
	if before := k.faults[concerned]; health != nil && sdk.Graver(before.health, health) == health {
		k.faults[concerned] = fault{health: health, despite: action != nil && *action == driver.RecoveryNone}
	}
	return note
}

// other judges events other than XIDs. The driver's recovery action decides, if it has one.
func (k *record) other(e driver.Event, action *driver.RecoveryAction, table *xid.Table) (fault *sdk.Health, note string) {
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

// renew clears faults that events reported, if the driver needs no recovery action.
func (k *record) renew() {
	if k.gpu.Err == nil && k.content() {
		maps.DeleteFunc(k.faults, func(_ scope, f fault) bool { return !f.despite })
	}
}

// selfTest is how long a GPU must answer without an error, on a driver without recovery actions,
// to clear earlier faults: all faults of a GPU that was lost, otherwise those that show when it
// is read. selfTestPause is the most time between scans while a GPU that was lost answers.
const selfTest, selfTestPause = time.Minute, 10 * time.Second

// test runs the self-test of a GPU, once a scan. The driver uses a lost GPU again only after
// it has initialized it from the start. So a GPU that answers for selfTest, without an
// error event and with none of the conditions, has been initialized, as after a reload
// of the driver.
func (k *record) test(now time.Time, table *xid.Table) {
	switch err := k.gpu.Err; {
	case errors.Is(err, driver.ErrLost) || errors.Is(err, driver.ErrReset) || k.missing:
		k.wasLost, k.answered, k.answering = true, false, time.Time{}
	case err != nil || len(k.conditions(table)) > 0:
		k.answered, k.answering = false, time.Time{}
	case k.answering.IsZero():
		k.answering = now
	case now.Sub(k.answering) >= selfTest:
		k.answered = true
		if k.wasLost {
			k.wasLost = false
			k.reload()
		}
	}
}

// reload clears faults that events reported before a reset of the GPU or a reload of its driver,
// either of which initializes the GPU.
func (k *record) reload() {
	clear(k.faults)
	k.fresh = true
}

func is(b *bool) bool { return b != nil && *b }
