package inventory

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Key identifies a device on this node: device IDs are unique per backend only.
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
	// Health is what the backend reports now; package health computes a verdict from it.
	Health Health
	// NUMANodes is sorted and without duplicates; empty means unknown.
	NUMANodes []int
	// PCIBusID is domain:bus:device.function in lower-case hex, or "".
	PCIBusID string
	// PCIeRoot is the root complex that it is at, as Kubernetes' attribute pcieRoot has it ("pci0000:40"); "" without an
	// address, and where the host's sysfs does not have it.
	PCIeRoot   string
	Attributes ByName[Attribute]
	// Capacities are in base units (bytes, watts, units), Policies what may be requested of
	// those of a shareable device.
	Capacities ByName[int64]
	Policies   ByName[RequestPolicy]
	// Shareable devices may have several holders at the same time.
	Shareable bool
	// Potential devices do not exist before Prepare creates them.
	Potential bool
	// MadeFor is the ID of the holder for which Prepare made the device; "" if it exists without
	// Prepare.
	MadeFor string
	// SlowToPrepare: Prepare takes so long that the pod of a claim should be bound only after it.
	SlowToPrepare bool
	Consumes      []Consumption
	Links         []Link
	// Parent is the ID of the physical device this is a partition of, or "".
	Parent string
	// ResetGroup names the devices that lose their state together, or "".
	ResetGroup string
	Edits      Edits
	// AdminEdits are what a container with admin access gets in addition.
	AdminEdits Edits
	Hooks      Hooks
	// PreparedFor is the number of containers at a time for which the backend has set the
	// device up; 0 for any number.
	PreparedFor uint32
}

// IsOnDemand reports whether Prepare makes, or made, the device.
func (d *Device) IsOnDemand() bool { return d.Potential || d.MadeFor != "" }

// Name returns the device's name in ResourceSlices, a DNS label: its ID in lower case, with "-"
// for all but letters and digits, and without "-" at the end. It is unique among the devices that a backend lists at one time.
func (d *Device) Name() string {
	name := []byte(strings.ToLower(d.ID))
	for i, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			name[i] = '-'
		}
	}
	return strings.TrimRight(string(name), "-")
}

// Hooks are the calls a device asks for.
type Hooks struct {
	Prepare bool
	Release bool
}

// State is a device's state of health.
type State string

// The states. A report without a state has StateUnknown.
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

// String returns the word that status output and the state file use.
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

// Need returns what a message says of a fault that needs more than its condition to clear:
// " (needs reset)".
func (r Recovery) Need() string {
	if r == RecoverySelf {
		return ""
	}
	return " (needs " + r.String() + ")"
}

// Reach is who is affected by a fault.
type Reach string

// The reaches, from the lightest to the gravest.
const (
	// ReachNewHolders: the device is not allocated again, its holders may continue.
	ReachNewHolders Reach = "new-holders"
	// ReachDevice: the device does not work.
	ReachDevice Reach = "device"
	// ReachHolders: the device does not work, and its holders must be moved away.
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
	// Recovered, with StateHealthy: there is evidence that earlier faults are cleared.
	Recovered bool
	// Cleared are the codes of faults of which there is evidence that they are cleared.
	Cleared Codes
	// Reach is whom the fault affects; "" without one.
	Reach Reach
	// Unread is why the backend could not look at the device, which is as it was listed last; "" if it could.
	// UnreadSince is since when.
	Unread      string
	UnreadSince time.Time
}

// Link is the connection to a peer of the same backend, in this direction. A peer without
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
	// EnvSeparators has the separators of those variables of Env whose values of several
	// devices are joined, by name; see [JoinEnv].
	EnvSeparators  ByName[string]
	DeviceNodes    []DeviceNode
	Mounts         []Mount
	Hooks          []OCIHook
	AdditionalGIDs []uint32
	// NetDevices are moved into the container, by hooks that are in Hooks.
	NetDevices []NetDevice
}

// Empty reports whether there is no edit at all.
func (e Edits) Empty() bool {
	return len(e.Env) == 0 && len(e.DeviceNodes) == 0 && len(e.Mounts) == 0 &&
		len(e.Hooks) == 0 && len(e.AdditionalGIDs) == 0 && len(e.NetDevices) == 0
}

// DeviceNode is a device node to create in the container.
type DeviceNode struct {
	Path        string
	HostPath    string // never empty
	Permissions string // never empty; a subset of "rwm"
	// Type is "b" for a block device, else "c" or "".
	Type string
	// Major and Minor are the numbers with which a runtime makes the node, which the host need not have then. Without a Major it
	// gets those of the host's node.
	Major, Minor uint32
}

// NetDevice is a network interface of the host.
type NetDevice struct {
	HostName string
	Name     string // in the container; never empty
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

// Problem is a message for the operator: a device that was left out, or a problem that the
// backend reports.
type Problem struct {
	// Device is the ID of the device, made printable; "" for the backend as a whole.
	Device  string `json:"device,omitempty"`
	Message string `json:"message"`
}

// Description is a backend's description of itself.
type Description struct {
	Name    string
	Vendor  string
	Version string
	Classes []string
	// Abilities beyond the mandatory calls.
	Prepare, Release, Reset, Sample bool
	// Look is when the core looks whether a process has a device open, with the applied settings.
	Look Look
	// AttributePriority are names of attributes and capacities, or beginnings of names and "*", the most important first.
	AttributePriority []string
	// Attributes are those that devices may have with the applied settings; none if the backend declares none.
	Attributes []Declaration
	// ParametersSchema is a JSON schema of Prepare's parameters, or "".
	ParametersSchema string
	// Parameters are the schema's properties, sorted by name.
	Parameters []Parameter
	// Edits are what container edits may contain with the applied settings, and Writes the paths that the process may
	// write, if the configuration accepts what is declared.
	Edits  EditScope
	Writes []string
	// SettingsSchema is a JSON schema of the settings, or "".
	SettingsSchema string
	// Limits are those of the settings; nil but for the check of a configuration.
	Limits *Limits
}

// Parameter is a parameter of Prepare that a container may set.
type Parameter struct {
	Name string
	// Description is for people.
	Description string
	// IsText is true if values are strings. Otherwise they are JSON of another type.
	IsText bool
}

// Statement is a report of a device's health that a later one replaced.
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
	// NodeLabels are sorted by name.
	NodeLabels []NodeLabel
	Problems   []Problem
	// Superseded are reports of health that a later inventory replaced, oldest first, for a
	// minute: consumers may skip snapshots, but not a fault that lasted a millisecond.
	Superseded []Statement
}

// HeldOver reports whether the backend has not reported in this run of the agent: the devices are those of the earlier run.
func (b *Backend) HeldOver() bool { return b.ReceivedAt.IsZero() && !b.LostAt.IsZero() }

// Snapshot has the devices of all backends at one moment. It never changes.
type Snapshot struct {
	// Generation grows with every change.
	Generation uint64
	// Backends are sorted by name. Only those with an accepted inventory.
	Backends []*Backend
}
