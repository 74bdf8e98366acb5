package inventory

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Key names a device on this node: device IDs are unique per backend only.
type Key struct {
	Backend string
	ID      string
}

// String is "backend/id", for logs and files.
func (k Key) String() string { return k.Backend + "/" + k.ID }

// Compare orders keys by backend, then by ID.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Backend, o.Backend), cmp.Compare(k.ID, o.ID))
}

// Device is one device that a backend reported and that passed validation. It
// is shared by every snapshot that contains it and never changes; treat its
// slices as read-only.
type Device struct {
	Key
	Class string
	// Health is what the backend says now; package health turns it into a verdict.
	Health Health
	// NUMANodes is sorted and without duplicates; empty means unknown.
	NUMANodes []int
	// PCIBusID is domain:bus:device.function in lower-case hex, or "".
	PCIBusID   string
	Attributes ByName[Attribute]
	// Capacities are in base units (bytes, watts, units), Policies what may be requested of
	// those of a shareable device.
	Capacities ByName[int64]
	Policies   ByName[RequestPolicy]
	// Shareable: several holders may have the device at the same time.
	Shareable bool
	// Potential: the device does not exist before Prepare makes it.
	Potential bool
	Consumes  []Consumption
	Links     []Link
	// Parent is the ID of the physical device this is a partition of, or "".
	Parent string
	// ResetGroup names the devices that lose their state together, or "".
	ResetGroup string
	Edits      Edits
	Hooks      Hooks
	// PreparedFor is for how many containers at a time the backend has set the device
	// up; 0 if that is all the same to it.
	PreparedFor uint32
}

// Hooks are the calls a device asks for.
type Hooks struct {
	Prepare bool
	Release bool
}

// State is what a backend can say of a device's health.
type State string

// The states. A backend that says nothing has said StateUnknown.
const (
	StateHealthy   State = "healthy"
	StateUnhealthy State = "unhealthy"
	StateUnknown   State = "unknown"
)

// Recovery is the least that must happen before a faulted device works again.
// A greater value is graver.
type Recovery int

// The recoveries, from the lightest to the gravest.
const (
	RecoverySelf Recovery = iota + 1
	RecoveryReset
	RecoveryReboot
	RecoveryReplacement
)

// String is the word that status output and the state file use.
func (r Recovery) String() string {
	switch r {
	case RecoverySelf:
		return "self"
	case RecoveryReset:
		return "reset"
	case RecoveryReboot:
		return "reboot"
	case RecoveryReplacement:
		return "replacement"
	}
	return "unknown"
}

// Reach is whom a fault affects.
type Reach string

// The reaches, from the lightest to the gravest.
const (
	// ReachNewHolders: the device goes to no new holder, those who have it may continue.
	ReachNewHolders Reach = "new-holders"
	// ReachDevice: the device does not work.
	ReachDevice Reach = "device"
	// ReachHolders: those who have it must be moved away, too.
	ReachHolders Reach = "holders"
)

// Graver returns the graver of two reaches.
func (r Reach) Graver(o Reach) Reach {
	order := []Reach{"", ReachNewHolders, ReachDevice, ReachHolders}
	if slices.Index(order, o) > slices.Index(order, r) {
		return o
	}
	return r
}

// Codes is a set of fault codes that can be compared with ==; "" is empty.
type Codes string

func newCodes(codes []string) Codes {
	if len(codes) == 0 {
		return ""
	}
	codes = slices.Compact(slices.Sorted(slices.Values(codes)))
	return Codes("," + strings.Join(codes, ",") + ",")
}

// Has reports whether the code is one of them.
func (c Codes) Has(code string) bool { return c != "" && strings.Contains(string(c), ","+code+",") }

// And returns the codes that both have.
func (c Codes) And(o Codes) Codes {
	var both []string
	for code := range strings.SplitSeq(strings.Trim(string(c), ","), ",") {
		if o.Has(code) {
			both = append(both, code)
		}
	}
	return newCodes(both)
}

// Health is a device's health as its backend reports it.
type Health struct {
	State    State
	Code     string
	Message  string
	Recovery Recovery
	// Recovered, with StateHealthy: there is evidence that earlier faults are over.
	Recovered bool
	// Cleared are the codes of faults of which there is evidence that they are over.
	Cleared Codes
	// Reach is whom the fault affects; "" without one.
	Reach Reach
}

// Link says how close a peer of the same backend is, in this direction. A peer without
// a link is farther than any that has one.
type Link struct {
	Peer string
	// Kind is the wire name in lower case without its prefix: "nvlink",
	// "pcie_switch", "cross_numa" ...
	Kind     string
	Count    int
	Distance int
}

// Direct reports whether a link is a direct one, in addition to the path over PCIe and NUMA
// nodes. A device has at most one link of each sort to a peer.
func (l Link) Direct() bool {
	switch l.Kind {
	case "nvlink", "nvswitch", "xgmi", "same_device":
		return true
	}
	return false
}

// Edits are what a container gets with a device. Paths are the host's.
type Edits struct {
	Env ByName[string]
	// EnvSeparators has, by name, those variables of Env whose values of several
	// devices are joined, and what stands between them; see [JoinEnv].
	EnvSeparators  ByName[string]
	DeviceNodes    []DeviceNode
	Mounts         []Mount
	Hooks          []OCIHook
	AdditionalGIDs []uint32
}

// Empty reports whether there is no edit at all.
func (e Edits) Empty() bool {
	return len(e.Env) == 0 && len(e.DeviceNodes) == 0 && len(e.Mounts) == 0 &&
		len(e.Hooks) == 0 && len(e.AdditionalGIDs) == 0
}

// DeviceNode is a device node to create in the container.
type DeviceNode struct {
	Path        string
	HostPath    string // never empty
	Permissions string // never empty; a subset of "rwm"
}

// Mount is a bind mount of a host path.
type Mount struct {
	HostPath      string
	ContainerPath string
	Writable      bool
	Options       []string
}

// OCIHook is a program that the runtime calls.
type OCIHook struct {
	Name string
	Path string
	Args []string
	Env  []string
}

// Problem is something an operator must know: a device that was left out, or a
// sentence of the backend's own.
type Problem struct {
	// Device is the offending ID, made printable; "" for the backend as a whole.
	Device  string `json:"device,omitempty"`
	Message string `json:"message"`
}

// Description is what a backend says of itself.
type Description struct {
	Name    string
	Vendor  string
	Version string
	Classes []string
	// Abilities beyond the mandatory calls.
	Prepare, Release, Reset, Sample bool
	// SettingsSchema is a JSON schema, or "".
	SettingsSchema string
	// AttributePriority are names of attributes and capacities, the most important first.
	AttributePriority []string
	// ParametersSchema is a JSON schema of Prepare's parameters, or "".
	ParametersSchema string
	// Parameters are the schema's properties, sorted by name.
	Parameters []Parameter
	// Needs are those of the program and of the settings in force together.
	Needs Needs
}

// Parameter is something that a container may ask of Prepare.
type Parameter struct {
	Name string
	// Description is for people.
	Description string
	// IsText: a value is a string. Otherwise it is JSON of another type.
	IsText bool
}

// Statement is what a backend said of a device's health and no longer says.
type Statement struct {
	ID     string
	Health Health
	// Generation is the Backend.Generation of the inventory that replaced it.
	Generation uint64
	At         time.Time
}

// Backend is one backend's part of a snapshot.
type Backend struct {
	Name        string
	Description Description
	// Generation counts the inventories accepted from this backend since we
	// started; it grows over the backend's restarts.
	Generation uint64
	// ReceivedAt is when the latest inventory was accepted.
	ReceivedAt time.Time
	// LostAt is when the backend stopped reporting; zero while it reports.
	LostAt  time.Time
	Devices []*Device
	// CounterSets are sorted by name.
	CounterSets []CounterSet
	Problems    []Problem
	// Superseded are faults and recoveries that a later inventory replaced,
	// oldest first. Consumers may skip snapshots; what must not be skipped with
	// them (a fault that lasted a millisecond) is here for a minute.
	Superseded []Statement
}

// Snapshot is everything that is known at one moment. It never changes.
type Snapshot struct {
	// Generation grows with every change.
	Generation uint64
	// Backends are sorted by name. Only those with an accepted inventory.
	Backends []*Backend
}
