package gpu

import (
	"errors"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/xid"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Partial returns the gravest fault that affects only some of the MIG devices of the GPU; nil if there is none.
func (m *Memory) Partial() *sdk.Health { return m.worst(m.hasInstance) }

// Health returns the health of the whole GPU. A fault of a MIG device that does not exist any more,
// because it was destroyed or MIG mode was switched off, is a fault of the GPU.
func (m *Memory) Health(checks Checks) *sdk.Health {
	worst := m.worst(func(s scope) bool { return !m.hasInstance(s) })
	for _, fault := range m.conditions(checks) {
		worst = sdk.Graver(worst, fault)
	}
	return m.concluded(worst, m.Err)
}

// Instance returns the health of a MIG device by its own faults alone.
func (m *Memory) Instance(i driver.Instance) *sdk.Health {
	worst := m.worst(func(s scope) bool { return s != whole && s.covers(i) })
	return m.concluded(worst, i.Err)
}

// concluded returns the health of the GPU, or of one of its MIG devices, with the evidence of
// recovery. worst is its gravest fault, nil for none; err is why it could not be read.
func (m *Memory) concluded(worst *sdk.Health, err error) *sdk.Health {
	switch {
	case worst != nil:
		return m.withEvidence(worst)
	case err != nil:
		return sdk.Unknown(err.Error())
	case m.recovered():
		return sdk.Recovered()
	}
	return m.withEvidence(sdk.Healthy())
}

// withEvidence adds to h that the faults of conditions are cleared, if the GPU has passed a
// self-test: an earlier process may have reported them. A driver that reports that no recovery
// action is needed gives better evidence, see recovered.
func (m *Memory) withEvidence(h *sdk.Health) *sdk.Health {
	if !m.answered || m.needsNothing() {
		return h
	}
	return sdk.Cleared(proto.CloneOf(h), codeGone, codeLost, codeReset)
}

// worst returns the gravest event fault of the scopes for which of returns true; nil for none.
func (m *Memory) worst(of func(scope) bool) *sdk.Health {
	var worst *sdk.Health
	for _, s := range slices.SortedFunc(maps.Keys(m.faults), scope.compare) {
		if of(s) {
			worst = sdk.Graver(worst, m.faults[s].health)
		}
	}
	return worst
}

// Codes of faults of conditions that a self-test clears.
const (
	codeGone  = "gpu-gone"
	codeLost  = "gpu-lost"
	codeReset = "reset-required"
)

// cools is how long a GPU that was too hot must not be so again.
const cools = time.Minute

// Checks are what is a fault.
type Checks struct {
	*xid.Table
	// Ignore has the codes of faults of this package that are none.
	Ignore map[string]bool
}

// Codes are those that can be ignored: the faults of a GPU other than XIDs.
var Codes = []string{
	codeGone, codeLost, codeReset, "recovery-reset", "recovery-reboot", "recovery-drain-p2p", "recovery-drain-and-reset", "recovery-imex",
	"recovery-bus-reset", "row-remap-failed", "memory-unrepairable", "sram-threshold-exceeded", "fabric-unhealthy", "fabric-not-ready",
	"overheated", "row-remap-pending", "page-retirement-pending", "repair-pending",
	string(driver.EventECC), string(driver.EventRetirementFailed), string(driver.EventFatalPoison), string(driver.EventUnavailable),
}

// conditions returns the faults in the GPU's last values, apart from those that events reported; none if all checks are off.
func (m *Memory) conditions(checks Checks) []*sdk.Health {
	return slices.DeleteFunc(m.allConditions(checks), func(h *sdk.Health) bool { return checks.Ignore[h.GetCode()] })
}

func (m *Memory) allConditions(checks Checks) []*sdk.Health {
	if checks.Off() {
		return nil
	}
	var all []*sdk.Health
	add := func(when bool, code string, recovery sdk.Recovery, message string) {
		if when {
			all = append(all, sdk.Fault(code, recovery, message))
		}
	}
	if err := m.Err; err != nil {
		unlisted := errors.Is(err, errUnlisted)
		add(unlisted && m.node == "", codeGone, sdk.RecoveryReboot, err.Error()+", though it is on the PCI bus: see the kernel's log, and reboot the node")
		add(unlisted && m.node != "", codeGone, sdk.RecoverySelf, err.Error()+": "+m.node)
		add(errors.Is(err, driver.ErrLost), codeLost, sdk.RecoveryReboot, err.Error())
		add(errors.Is(err, driver.ErrReset), codeReset, sdk.RecoveryReset, err.Error())
	}
	c := m.Condition
	if demand := checks.Demand(c.Recovery); demand != nil {
		all = append(all, demand)
	}
	add(is(c.RemapFailed), "row-remap-failed", sdk.RecoveryReplacement, "the memory has no spare rows left: replace the GPU")
	add(is(c.Unrepairable), "memory-unrepairable", sdk.RecoveryReplacement, "the memory has errors that cannot be repaired: replace the GPU")
	add(is(c.SRAMExceeded), "sram-threshold-exceeded", sdk.RecoveryReplacement,
		"the caches had more uncorrectable errors than NVIDIA's threshold: run NVIDIA's field diagnostic, and replace the GPU if that recommends it")
	add(is(c.FabricUnhealthy), "fabric-unhealthy", sdk.RecoverySelf,
		"the driver reports that the GPU's NVLink fabric is unhealthy: see nvidia-smi -q (Fabric) and the log of the fabric manager")
	if f := m.Fabric; m.Err == nil && f.Waits() && !m.MIGEnabled {
		add(true, "fabric-not-ready", sdk.RecoverySelf, "the GPU has not joined its NVLink fabric yet ("+f.State+
			"), and CUDA programs fail until it has (error 802): is nvidia-fabricmanager running?")
	}
	add(!m.hot.IsZero() && m.Began.Sub(m.hot) < cools, "overheated", sdk.RecoverySelf,
		"the hardware slows the GPU down because of heat: check fans, airflow and the room; the fault is cleared when the GPU has cooled down")
	// What runs goes on, on memory that is still good: only new holders would be interrupted by the reset.
	pending := len(all)
	defer func() {
		for _, h := range all[pending:] {
			h.Reach = sdk.ReachNewHolders
		}
	}()
	const reset = "reset the GPU (nvidia-smi --gpu-reset) when nothing uses it"
	add(is(c.RemapPending), "row-remap-pending", sdk.RecoveryReset, "memory rows are to be remapped: "+reset)
	add(is(c.RetiredPending), "page-retirement-pending", sdk.RecoveryReset, "memory pages are to be retired: "+reset)
	add(is(c.RepairPending), "repair-pending", sdk.RecoveryReset, "a repair is pending: "+reset)
	return all
}

func is(b *bool) bool { return b != nil && *b }

// recovered reports whether there is evidence that all earlier faults are cleared: the GPU could be
// read, no fault of an event is left, and the driver requires no recovery action.
func (m *Memory) recovered() bool { return m.Err == nil && m.needsNothing() && len(m.faults) == 0 }
