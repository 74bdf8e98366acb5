package gpu

import (
	"errors"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/xid"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Verdict is the health of a GPU and of its MIG devices. It is immutable.
type Verdict struct {
	// GPU is the health of the whole GPU. Partial is the gravest fault that affects only some
	// of its MIG devices; nil if there is none.
	GPU, Partial *sdk.Health
	// Instances is the health of the MIG devices by UUID, by their own faults alone.
	Instances map[string]*sdk.Health
	// XIDs counts the XIDs by code, since the process started.
	XIDs map[string]uint64
}

func (k *Record) verdict(table *xid.Table) Verdict {
	v := Verdict{GPU: k.Health(table), Partial: k.worst(k.hasInstance), Instances: map[string]*sdk.Health{}, XIDs: maps.Clone(k.xids)}
	for _, i := range k.GPU.Instances {
		v.Instances[i.UUID] = k.instanceHealth(i)
	}
	return v
}

// Health returns the health of the whole GPU. A fault of a MIG device that does not exist any more,
// because it was destroyed or MIG mode was switched off, is a fault of the GPU.
func (k *Record) Health(table *xid.Table) *sdk.Health {
	worst := k.worst(func(s scope) bool { return !k.hasInstance(s) })
	for _, fault := range k.conditions(table) {
		worst = sdk.Graver(worst, fault)
	}
	return k.concluded(worst, k.GPU.Err)
}

// instanceHealth returns the health of one MIG device by its own faults alone.
func (k *Record) instanceHealth(i driver.Instance) *sdk.Health {
	worst := k.worst(func(s scope) bool { return s != whole && s.covers(i) })
	return k.concluded(worst, i.Err)
}

// concluded returns the health of the GPU, or of one of its MIG devices, with the evidence of
// recovery. worst is its gravest fault, nil for none; err is why it could not be read.
func (k *Record) concluded(worst *sdk.Health, err error) *sdk.Health {
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

// withEvidence adds to h that the faults of conditions are cleared, if the GPU has passed a
// self-test: an earlier process may have reported them. A driver that reports that no recovery
// action is needed gives better evidence, see recovered.
func (k *Record) withEvidence(h *sdk.Health) *sdk.Health {
	if !k.answered || k.needsNothing() {
		return h
	}
	return sdk.Cleared(proto.CloneOf(h), codeGone, codeLost, codeReset)
}

// worst returns the gravest event fault of the scopes for which of returns true; nil for none.
func (k *Record) worst(of func(scope) bool) *sdk.Health {
	var worst *sdk.Health
	for _, s := range slices.SortedFunc(maps.Keys(k.faults), scope.compare) {
		if of(s) {
			worst = sdk.Graver(worst, k.faults[s].health)
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

// conditions returns the faults in the GPU's last values, apart from those that events reported.
func (k *Record) conditions(table *xid.Table) []*sdk.Health {
	var all []*sdk.Health
	add := func(when bool, code string, recovery sdk.Recovery, message string) {
		if when {
			all = append(all, sdk.Fault(code, recovery, message))
		}
	}
	add(k.missing && k.node == "", codeGone, sdk.RecoveryReboot,
		"the driver does not list the GPU any more, though it is on the PCI bus: see the kernel's log, and reboot the node")
	add(k.missing && k.node != "", codeGone, sdk.RecoverySelf, "the driver does not list the GPU any more: "+k.node)
	if err := k.GPU.Err; err != nil {
		add(errors.Is(err, driver.ErrLost), codeLost, sdk.RecoveryReboot, err.Error())
		add(errors.Is(err, driver.ErrReset), codeReset, sdk.RecoveryReset, err.Error())
	}
	c := k.GPU.Condition
	if demand := table.Demand(c.Recovery); demand != nil {
		all = append(all, demand)
	}
	add(is(c.RemapFailed), "row-remap-failed", sdk.RecoveryReplacement, "the memory has no spare rows left: replace the GPU")
	add(is(c.Unrepairable), "memory-unrepairable", sdk.RecoveryReplacement, "the memory has errors that cannot be repaired: replace the GPU")
	add(is(c.SRAMExceeded), "sram-threshold-exceeded", sdk.RecoveryReplacement,
		"the caches had more uncorrectable errors than NVIDIA's threshold: run NVIDIA's field diagnostic, and replace the GPU if that recommends it")
	add(is(c.FabricUnhealthy), "fabric-unhealthy", sdk.RecoverySelf,
		"the driver reports that the GPU's NVLink fabric is unhealthy: see nvidia-smi -q (Fabric) and the log of the fabric manager")
	add(is(c.Overheated), "overheated", sdk.RecoverySelf,
		"the hardware slows the GPU down because of heat: check fans, airflow and the room; the fault is cleared when the GPU has cooled down")
	const reset = "reset the GPU (nvidia-smi --gpu-reset) when nothing uses it"
	add(is(c.RemapPending), "row-remap-pending", sdk.RecoveryReset, "memory rows are to be remapped: "+reset)
	add(is(c.RetiredPending), "page-retirement-pending", sdk.RecoveryReset, "memory pages are to be retired: "+reset)
	add(is(c.RepairPending), "repair-pending", sdk.RecoveryReset, "a repair is pending: "+reset)
	return all
}

func is(b *bool) bool { return b != nil && *b }

// recovered reports whether there is evidence that all earlier faults are cleared: the GPU could be
// read, no fault of an event is left, and the driver requires no recovery action or has initialized
// the GPU again.
func (k *Record) recovered() bool {
	return k.GPU.Err == nil && !k.missing && (k.needsNothing() || k.initialized) && len(k.faults) == 0
}
