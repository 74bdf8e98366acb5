package driver

import (
	"time"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Whole stands for "all of them" where NVML says which GPU instance or compute
// instance an event belongs to.
const Whole uint32 = 0xFFFFFFFF

// Snapshot is what NVML says at one moment.
type Snapshot struct {
	// DriverVersion is that of the kernel module's user space, such as
	// "570.124.06".
	DriverVersion string
	// CUDAVersion is the newest CUDA that the driver runs, such as "12.8"; empty
	// if unknown.
	CUDAVersion string
	// GPUs are all GPUs that NVML counts, by index, dead ones included.
	GPUs []GPU
	// Links are the connections between GPUs, one for each unordered pair that
	// something is known of. They are read again only when the set of GPUs
	// changed.
	Links []Link
}

// GPU is one physical GPU.
type GPU struct {
	// Index is NVML's, and holds until the driver is opened again.
	Index int
	// UUID is "GPU-" and a UUID; empty if the GPU was dead from the start.
	UUID string
	// PCIBusID is as sysfs writes it (see backends/pci); empty if unknown.
	PCIBusID string
	// Name is the product's, such as "NVIDIA H100 80GB HBM3".
	Name string
	// Architecture is lower case: "ampere", "hopper", "blackwell"; empty if
	// unknown to this program.
	Architecture string
	// Serial is the board's serial number; empty if it has none.
	Serial string
	// ComputeMajor and ComputeMinor are the CUDA compute capability; 0.0 if
	// unknown.
	ComputeMajor, ComputeMinor int
	// Minor is N of /dev/nvidiaN; -1 if unknown.
	Minor int
	// MemoryBytes is all memory of the GPU, 0 if unknown. A GPU that shares its
	// memory with the CPU has none of its own.
	MemoryBytes uint64
	// PowerLimitWatts is the limit in force, 0 if there is none.
	PowerLimitWatts uint32
	// MIGCapable says that the GPU can be partitioned, MIGEnabled that it is in
	// MIG mode now, MIGPending that it will be after the next reset.
	MIGCapable, MIGEnabled, MIGPending bool
	// Instances are the MIG devices, by GPU instance and compute instance.
	Instances []Instance
	// Fabric is the GPU's place in an NVLink fabric; nil if it is in none.
	Fabric *Fabric
	// Condition is what the GPU says of itself.
	Condition Condition
	// Err is why the GPU could not be read as a whole: see [ErrLost],
	// [ErrNoAnswer], [ErrReset], [ErrFailed]. What was read before, since the
	// driver was opened, is still there, but for Condition: that is always new.
	Err error
}

// Instance is one MIG device: a compute instance in a GPU instance.
type Instance struct {
	// UUID is "MIG-" and a UUID.
	UUID string
	// Profile is NVIDIA's name of the kind, such as "1g.10gb", "1g.10gb+me" or
	// "1c.3g.40gb".
	Profile string
	// GPUInstance and ComputeInstance are NVML's numbers of it.
	GPUInstance, ComputeInstance uint32
	// MemoryBytes is the memory of the GPU instance.
	MemoryBytes uint64
	// GPUSlices and ComputeSlices are the slices of the GPU instance and of the
	// compute instance; 0 if unknown.
	GPUSlices, ComputeSlices uint32
	// The engines of the instance; 0 if it has none.
	Multiprocessors, CopyEngines, Decoders, Encoders, JPEGEngines, OFAEngines uint32
	// Err is why this instance could not be read as a whole.
	Err error
}

// Fabric is a GPU's place in a fabric of NVLink switches that a fabric manager
// sets up, maybe over several nodes.
type Fabric struct {
	// ClusterUUID names the fabric; empty until the GPU has joined.
	ClusterUUID string
	// Clique is the part of the fabric in which all GPUs reach each other.
	Clique uint32
	// State is "not-started", "in-progress" or "completed".
	State string
	// Err is why the GPU did not join; nil if it did, or has not yet.
	Err error
}

// Joined reports whether the GPU has joined the fabric. Before that, cluster and clique are
// not valid, whatever the driver returns. It may be called on nil.
func (f *Fabric) Joined() bool { return f != nil && f.State == "completed" && f.Err == nil }

// Condition is what a GPU says of its own health. Nil means that it does not
// say: not supported by the GPU or by the driver.
type Condition struct {
	// Recovery is what the driver wants done with the GPU (R555 and newer).
	Recovery *RecoveryAction
	// ECCUncorrected counts uncorrectable memory errors since the driver was
	// loaded.
	ECCUncorrected *uint64
	// RemapPending says that rows will be remapped by the next reset;
	// RemapFailed that there are no spare rows left. Ampere and newer.
	RemapPending, RemapFailed *bool
	// RetiredPending says that pages will be retired by the next reboot or
	// reset. Before Ampere.
	RetiredPending *bool
	// RepairPending says that a memory channel or TPC will be repaired by the
	// next reset. Blackwell and newer.
	RepairPending *bool
	// Unrepairable says that the memory has errors that no repair can mend.
	Unrepairable *bool
	// SRAMExceeded reports that the caches had more uncorrectable errors than NVML's SRAM
	// threshold. Ampere and newer.
	SRAMExceeded *bool
	// Overheated reports that the hardware slows the GPU down because of heat, or that the
	// temperature has reached the slowdown threshold.
	Overheated *bool
	// FabricUnhealthy reports that the GPU's NVLink fabric is unhealthy, FabricLimited that
	// it has limited capacity (healthSummary of nvmlGpuFabricInfo_v3_t).
	FabricUnhealthy, FabricLimited *bool
}

// RecoveryAction is what the driver wants done with a GPU
// (nvmlDeviceGpuRecoveryAction_t in nvml.h).
type RecoveryAction uint32

// The recovery actions, with NVML's values. A later driver may have more.
const (
	// RecoveryNone: the GPU is fit for use.
	RecoveryNone RecoveryAction = iota
	// RecoveryReset: reset the GPU.
	RecoveryReset
	// RecoveryNodeReboot: reboot the node.
	RecoveryNodeReboot
	// RecoveryDrainP2P: stop all peer-to-peer traffic of the GPU. Running work
	// goes on.
	RecoveryDrainP2P
	// RecoveryDrainAndReset: the GPU works with less capacity until it is
	// drained and reset.
	RecoveryDrainAndReset
	// RecoveryIMEX: recover the IMEX domain.
	RecoveryIMEX
	// RecoveryBusReset: reset the GPU's PCIe bus.
	RecoveryBusReset
	// RecoverySystemReboot: reboot the whole system.
	RecoverySystemReboot
)

// Link is how two GPUs are connected. It holds in both directions.
type Link struct {
	// A and B are UUIDs, A before B in the order of the snapshot.
	A, B string
	// Kind is in the contract's terms: NVLink, or the path over PCIe if there is none.
	Kind backendv1.LinkKind
	// Path is the path over PCIe of GPUs that also have NVLinks; unspecified if NVML does
	// not know it, or if Kind is the path.
	Path backendv1.LinkKind
	// Count is how many NVLinks lie side by side; 1 for PCIe.
	Count uint32
}

// EventType says what happened.
type EventType string

// The types of events.
const (
	// EventXID is a critical error; Event.XID says which. Its meaning is in
	// backends/nvidia/xid.
	EventXID EventType = "xid"
	// EventECC is an uncorrectable ECC error.
	EventECC EventType = "ecc-uncorrectable"
	// EventRetirement is memory that was retired; EventRetirementFailed memory
	// that could not be.
	EventRetirement       EventType = "dram-retirement"
	EventRetirementFailed EventType = "dram-retirement-failed"
	// EventPoison is poisoned data that was contained; EventFatalPoison data that
	// was not.
	EventPoison      EventType = "poison"
	EventFatalPoison EventType = "fatal-poison"
	// EventUnavailable says that the GPU cannot be used any more.
	EventUnavailable EventType = "unavailable"
	// EventRecovery says that the recovery action has changed: take a new
	// snapshot.
	EventRecovery EventType = "recovery-action"
	// EventMIG says that MIG devices of the GPU come or go, one event for each step
	// of it: take a new snapshot when they have settled.
	EventMIG EventType = "mig-config"
	// EventMissed says that events were dropped since the reader was too slow:
	// take a new snapshot. Data says how many.
	EventMissed EventType = "missed"
	// EventBroken says that waiting for events fails; Err says why, which may be
	// one GPU that is lost. It comes once until it works again, without the GPUs
	// that do not answer, which EventMended tells: take a new snapshot, since
	// events may be lost.
	EventBroken EventType = "broken"
	EventMended EventType = "mended"
)

// Event is something that happened.
type Event struct {
	Type EventType
	// Time is when it was read.
	Time time.Time
	// GPU is the UUID, PCIBusID the PCI bus ID. Both are empty for an event of
	// the system, and may be for a GPU that is dead.
	GPU, PCIBusID string
	// XID is the code of an EventXID.
	XID uint64
	// Data is the event's own, for any other type.
	Data uint64
	// GPUInstance and ComputeInstance say which MIG device is concerned; [Whole]
	// for all of them, and for a GPU that is not in MIG mode.
	GPUInstance, ComputeInstance uint32
	// Err is why waiting fails, for EventBroken.
	Err error
}

// Telemetry is what was measured on one GPU or MIG device.
type Telemetry struct {
	// GPU is the UUID of the GPU, or of a MIG device.
	GPU string
	// Values are those that the GPU has, in a stable order.
	Values []Value
	// Err is why nothing, or not everything, could be measured.
	Err error
}

// Value is one measured value, in the contract's terms: names in Prometheus
// style, base units.
type Value struct {
	Name string
	// Counter says that the value only grows.
	Counter bool
	Value   float64
	// Label and LabelValue tell values of one name apart; empty if there is only
	// one.
	Label, LabelValue string
}
