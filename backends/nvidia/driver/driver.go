package driver

import (
	"time"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Whole means all GPU instances or all compute instances, where NVML names the
// instance of an event.
const Whole uint32 = 0xFFFFFFFF

// Snapshot is what NVML reported at one moment.
type Snapshot struct {
	// DriverVersion is the version of the driver's user space, such as
	// "570.124.06".
	DriverVersion string
	// CUDAVersion is the newest CUDA that the driver supports, such as "12.8";
	// empty if unknown.
	CUDAVersion string
	// GPUs are all GPUs that NVML counts, by index, including those that failed.
	GPUs []GPU
	// Links are the connections between GPUs, one for each unordered pair whose
	// connection is known. They are read again only when the set of GPUs has
	// changed.
	Links []Link
}

// GPU is one physical GPU.
type GPU struct {
	// Index is NVML's index. It is valid until the driver is opened again.
	Index int
	// UUID is "GPU-" and a UUID; empty if no snapshot could read it.
	UUID string
	// PCIBusID is as sysfs writes it (see backends/pci); empty if unknown.
	PCIBusID string
	// Name is the product name, such as "NVIDIA H100 80GB HBM3".
	Name string
	// Architecture is as NVIDIA writes it: "Ampere", "Ada Lovelace", "Hopper"; empty if
	// unknown to this program.
	Architecture string
	// Brand is such as "Nvidia" or "GeForce"; empty if unknown.
	Brand string
	// AddressingMode is how the GPU reaches memory of the system: "HMM", "ATS" or "None"; empty if the platform or
	// the driver has no such mode.
	AddressingMode string
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
	// MIGCapable: the GPU can be partitioned. MIGEnabled: it is in MIG mode.
	// MIGPending: it will be in MIG mode after the next reset; equal to MIGEnabled unless the mode was changed since.
	MIGCapable, MIGEnabled, MIGPending bool
	// Instances are the MIG devices, by GPU instance and compute instance.
	Instances []Instance
	// Profiles are those of GPU instances, and GPUInstances are all that there are, by ID. They are
	// read with the option Partitions of a GPU in MIG mode.
	Profiles     []Profile
	GPUInstances []GPUInstance
	// Fabric is the GPU's NVLink fabric; nil if it is in none.
	Fabric *Fabric
	// Condition is what the GPU reports about its own health.
	Condition Condition
	// Err is why the GPU could not be read completely: see [ErrLost], [ErrNoAnswer],
	// [ErrReset], [ErrFailed]. Values read since the driver was opened remain in
	// the other fields. Condition alone always comes from this snapshot.
	Err error
}

// Instance is one MIG device: a compute instance in a GPU instance.
type Instance struct {
	// UUID is "MIG-" and a UUID.
	UUID string
	// Index is for nvmlDeviceGetMigDeviceHandleByIndex.
	Index int
	// Profile is NVIDIA's name of the profile, such as "1g.10gb", "1g.10gb+me" or
	// "1c.3g.40gb".
	Profile string
	// GPUInstance and ComputeInstance are NVML's IDs of the instances.
	GPUInstance, ComputeInstance uint32
	// MemoryBytes is the memory of the GPU instance.
	MemoryBytes uint64
	// GPUSlices and ComputeSlices are the slices of the GPU instance and of the
	// compute instance; 0 if unknown.
	GPUSlices, ComputeSlices uint32
	// The numbers of engines of the instance; 0 if it has none of a kind. EnginesKnown: they were read.
	Multiprocessors, CopyEngines, Decoders, Encoders, JPEGEngines, OFAEngines uint32
	EnginesKnown                                                              bool
	// Placement is where its GPU instance is; nil if it is not known: NVML reports it only to administrators.
	Placement *Placement
	// Err is why this instance could not be read completely.
	Err error
}

// Fabric is the NVLink fabric of a GPU. A fabric manager sets up its switches; it may
// span several nodes.
type Fabric struct {
	// ClusterUUID identifies the fabric; empty until the GPU has joined.
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

// Waits reports whether the GPU has still to join the fabric: CUDA cannot be initialized before that. It may be called on nil.
func (f *Fabric) Waits() bool { return f != nil && f.State != "completed" }

// Condition is what a GPU reports about its own health. Nil: the GPU or the driver
// does not support it.
type Condition struct {
	// Recovery is the recovery action that the driver requires (R555 and newer).
	Recovery *RecoveryAction
	// ECCUncorrected counts uncorrectable memory errors since the driver was
	// loaded.
	ECCUncorrected *uint64
	// RemapPending: the next reset remaps rows. RemapFailed: a row could not be
	// remapped, as no spare row is left. Ampere and newer.
	RemapPending, RemapFailed *bool
	// RetiredPending: the next reboot or reset retires pages. Before
	// Ampere.
	RetiredPending *bool
	// RepairPending: the next reset repairs a memory channel or TPC.
	// Blackwell and newer.
	RepairPending *bool
	// Unrepairable: the memory has errors that cannot be repaired.
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

// RecoveryAction is the action that the driver requires for a GPU
// (nvmlDeviceGpuRecoveryAction_t in nvml.h).
type RecoveryAction uint32

// The recovery actions, with NVML's values. A later driver may have more.
const (
	// RecoveryNone: no action.
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

// Link is a connection between two GPUs, the same in both directions.
type Link struct {
	// A and B are UUIDs, A before B in the order of the snapshot.
	A, B string
	// Kind is NVLink, or the kind of path over PCIe if there is no NVLink.
	Kind backendv1.LinkKind
	// Path is the path over PCIe of GPUs that also have NVLinks; unspecified if NVML
	// does not report it, or if Kind is a path over PCIe.
	Path backendv1.LinkKind
	// Count is the number of NVLinks between the GPUs; 1 for PCIe.
	Count uint32
}

// EventType is the type of an event.
type EventType string

// The types of events.
const (
	// EventXID is a critical error with the code Event.XID. Package
	// backends/nvidia/xid has the meanings of the codes.
	EventXID EventType = "xid"
	// EventECC is an uncorrectable ECC error.
	EventECC EventType = "ecc-uncorrectable"
	// EventRetirement: memory was retired. EventRetirementFailed: memory could
	// not be retired.
	EventRetirement       EventType = "dram-retirement"
	EventRetirementFailed EventType = "dram-retirement-failed"
	// EventPoison: poisoned data was contained. EventFatalPoison: it was not
	// contained.
	EventPoison      EventType = "poison"
	EventFatalPoison EventType = "fatal-poison"
	// EventUnavailable: the GPU cannot be used any more.
	EventUnavailable EventType = "unavailable"
	// EventRecovery: the recovery action has changed. Take a new
	// snapshot.
	EventRecovery EventType = "recovery-action"
	// EventMIG: MIG devices of the GPU are created or destroyed; one event for each
	// step. Take a new snapshot after the last step.
	EventMIG EventType = "mig-config"
	// EventMissed: events were dropped because the reader was too slow; Data is
	// their number. Take a new snapshot.
	EventMissed EventType = "missed"
	// EventBroken: waiting for events fails, with Err, for instance because one GPU is
	// lost. It is sent once, until EventMended reports that waiting works again,
	// without the GPUs that do not answer. Take a new snapshot, since events may be
	// lost.
	EventBroken EventType = "broken"
	EventMended EventType = "mended"
)

// Event is an event of the driver or of the stream.
type Event struct {
	Type EventType
	// Time is when it was read.
	Time time.Time
	// GPU is the UUID, PCIBusID the PCI bus ID. Both are empty for an event of
	// the system, and may be empty for a GPU that failed.
	GPU, PCIBusID string
	// XID is the code of an EventXID.
	XID uint64
	// Data is NVML's data of an event of any other type.
	Data uint64
	// GPUInstance and ComputeInstance are the MIG device of the event; [Whole] for
	// all of them, and for a GPU that is not in MIG mode.
	GPUInstance, ComputeInstance uint32
	// Err is why waiting fails, for EventBroken.
	Err error
}

// Telemetry is the measurements of one GPU or MIG device.
type Telemetry struct {
	// GPU is the UUID of the GPU, or of a MIG device.
	GPU string
	// Values are the measured values, in a stable order.
	Values []Value
	// Err is why some values, or all, could not be measured.
	Err error
}

// Value is one measured value: the name in Prometheus style, in base units.
type Value struct {
	Name string
	// Counter reports whether the value only increases.
	Counter bool
	Value   float64
	// Label and LabelValue distinguish values of one name; empty if there is
	// only one.
	Label, LabelValue string
}
