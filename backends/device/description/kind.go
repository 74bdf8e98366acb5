package description

import (
	"strings"

	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Kind describes devices of one kind. The fields that are templates are text in which
// {expression} is replaced; expressions are CEL. See package expression for both.
type Kind struct {
	// Name is a DNS label: the attribute kind of the devices, and the beginning of their IDs.
	Name string `json:"name"`
	// Class is that of the devices, one of the manifest's classes: empty for [OtherClass].
	Class string `json:"class"`
	// Match selects the objects in /sys and /dev that are devices.
	Match Match `json:"match"`
	// ID is a template. The default is the kind's name with the USB device's vendor, product
	// and serial number or port, with the PCI address, or with the name of the device that the
	// object is on, or else its own. A device whose ID has a number that the kernel counts has the
	// attribute [CountedAttribute]. Characters that an ID cannot have become "-", and the end of one that is
	// too long a hash. Objects with one ID are left out, with a problem.
	ID string `json:"id"`
	// MergeBy is a template. Objects for which it is the same text are one device, whose ID and
	// attributes are those of the first of them by PCI address, USB port and name, and whose edits and
	// faults are those of all.
	MergeBy string `json:"mergeBy"`
	// Attributes are expressions by the attribute's name. One that reads an absent file is left
	// out. The attribute kind is always there.
	Attributes map[string]string `json:"attributes"`
	// Capacities are expressions of whole numbers in base units, as Attributes.
	Capacities map[string]string `json:"capacities"`
	// Count is how many containers may share a device: its capacity shares, of which each gets
	// one. 0: it is not shared.
	Count int `json:"count"`
	// Edits are what a container gets.
	Edits Edits `json:"edits"`
	// Health are the faults that a device can have; the gravest of those that are there counts.
	Health []Health `json:"health"`
	// Reset is how to reset a device; nil if that is not possible.
	Reset *Reset `json:"reset"`
	// Prepare is done before a container starts, in this order, unless it was done for another
	// container that has the device, too. What was bound is undone when the last one has ended.
	Prepare []Step `json:"prepare"`
	// Telemetry are metrics of the devices.
	Telemetry Telemetry `json:"telemetry"`
	// DeviceInfo has a file written for each device, which Multus hands to CNI plugins.
	DeviceInfo DeviceInfo `json:"deviceInfo"`
	// Hardware is that of the kind; nil if it has no PCI functions, or which is unknown.
	Hardware *Hardware `json:"hardware"`
}

// DeviceInfo is a file as the Device Information Specification 1.1.0 of the Network Plumbing Working
// Group has it (github.com/k8snetworkplumbingwg/device-info-spec). It is there while the device is listed.
type DeviceInfo struct {
	// Resource is the name of the resource with the devices, by the device plugin API. There are
	// no files without it.
	Resource string `json:"resource"`
	// Type is that of the information, such as vdpa; empty for pci.
	Type string `json:"type"`
	// Fields are expressions of texts by the names of the specification, such as pci-address. One that is
	// empty, or reads an absent file, is left out.
	Fields map[string]string `json:"fields"`
}

// Hardware are the PCI functions that a kind serves once they have one of the drivers. One that has none, or for drivers
// of VFIO the node's own, is reported.
type Hardware struct {
	PCI     *match.PCI `json:"pci"`
	Drivers []string   `json:"drivers"`
}

// Match selects objects.
type Match struct {
	match.Selector
	// Where is an expression that must be true. It is not for an object that lacks what the
	// expression reads.
	Where string `json:"where"`
}

// Edits are what a container gets with a device.
type Edits struct {
	// Nodes are device nodes. None: that of the object.
	Nodes []Node `json:"nodes"`
	// Mounts are files and directories of the host.
	Mounts []Mount `json:"mounts"`
	// NetDevices are network interfaces that are moved into the container. They are for a kind
	// that matches these interfaces, by class: net.
	NetDevices []NetDevice `json:"netDevices"`
	// Env are templates by the name of the variable.
	Env map[string]string `json:"env"`
	// JoinedEnv are variables whose values are joined, for a container with several devices.
	JoinedEnv map[string]Joined `json:"joinedEnv"`
}

// Node is a device node, or several: an expression of its path may be a list.
type Node struct {
	// Path is a template of the path on the host, such as /dev/vfio/{iommu.group}.
	Path string `json:"path"`
	// ContainerPath is a template; empty for Path. It is for a single node.
	ContainerPath string `json:"containerPath"`
	// Permissions are of r, w and m (mknod); empty for rw.
	Permissions string `json:"permissions"`
	// Optional: a device has no fault without the node.
	Optional bool `json:"optional"`
}

// Mount is a bind mount, read-only unless Writable.
type Mount struct {
	// Path is a template of the path on the host.
	Path string `json:"path"`
	// ContainerPath is a template; empty for Path.
	ContainerPath string `json:"containerPath"`
	Writable      bool   `json:"writable"`
	// Optional: the container starts without the mount if it is not allowed.
	Optional bool `json:"optional"`
}

// NetDevice is a network interface that is moved into the container, and so not on the host, and
// not found, while a container has it.
type NetDevice struct {
	// Host is a template of its name on the host, such as {name}.
	Host string `json:"host"`
	// Name is a template of its name in the container; empty for that on the host.
	Name string `json:"name"`
}

// Joined is a variable that is joined.
type Joined struct {
	// Value is a template.
	Value string `json:"value"`
	// Separator is between the values of two devices; empty for a comma.
	Separator string `json:"separator"`
}

// Health is a fault and what shows it: exactly one of When, Present, Absent, Grows, Heartbeat
// and Event. Files are below the object, or below /sys: templates. FILE#NAME is the value of NAME in
// a table, as [match.Object.Text] has it.
type Health struct {
	// Fault is its code, such as "lamed".
	Fault string `json:"fault"`
	// When is an expression that is true while the fault is there. If it fails, the health is
	// unknown: ask self.has(file) first for a file that not all drivers have.
	When string `json:"when"`
	// Present is a file that is there while the fault is, Absent one that is not.
	Present string `json:"present"`
	Absent  string `json:"absent"`
	// Grows is a file with a counter that must not grow. The fault lasts until a reset; with the
	// recovery self until a scan in which the counter has not grown. A driver without the file
	// has no such fault.
	Grows string `json:"grows"`
	// Heartbeat is a file whose content must change at least once Within, by default 1 minute,
	// which is not less than the interval. A driver without the file has no such fault.
	Heartbeat string       `json:"heartbeat"`
	Within    sdk.Duration `json:"within"`
	// Event is a property of a uevent of the object, of the hardware that it is on, or of a PCI
	// bridge above that: such as WEDGED, with any value, or ERROR_EVENT=FAILED_RECOVERY. The fault
	// lasts until a reset, or until the driver has set the device up again.
	Event string `json:"event"`
	// Message is a template that says to the operator what happened and what to do.
	Message string `json:"message"`
	// Recovery is self (the default), reset, reboot or replacement.
	Recovery string `json:"recovery"`
	// Reach is what the fault affects: newHolders, device (the default) or holders.
	Reach string `json:"reach"`
}

// EventIn returns the property of Event as the properties of a uevent have it; ok reports whether
// they do.
func (h Health) EventIn(properties map[string]string) (property string, ok bool) {
	name, want, hasValue := strings.Cut(h.Event, "=")
	is, ok := properties[name]
	return name + "=" + is, ok && h.Event != "" && (!hasValue || is == want)
}

// Reset is a way to reset a device: exactly one of the fields. Nothing is reset while a process
// has one of the device's nodes open.
type Reset struct {
	// PCI has the kernel reset the PCI function.
	PCI bool `json:"pci"`
	// Write writes a file.
	Write *Write `json:"write"`
	// Program is the path of a program on the node and its arguments, which are templates.
	Program []string `json:"program"`
}

// Step is done before a container starts: exactly one of the fields.
type Step struct {
	Write *Write `json:"write"`
	// Bind binds the PCI function to a driver.
	Bind *Bind `json:"bind"`
}

// Write writes a file of sysfs, which is below the object, or an absolute path below /sys/devices, /sys/bus or /sys/class: a
// template. So is the value.
type Write struct {
	File  string `json:"file"`
	Value string `json:"value"`
}

// Bind binds a PCI function to a driver.
type Bind struct {
	// Driver is its name, such as vfio-pci.
	Driver string `json:"driver"`
}

// Telemetry are metrics.
type Telemetry struct {
	// Hwmon: all sensors of the hardware monitors of the object, its device or its PCI function.
	Hwmon bool `json:"hwmon"`
	// Gauges go up and down, Counters only grow.
	Gauges   []Metric `json:"gauges"`
	Counters []Metric `json:"counters"`
}

// Metric is a number in a file.
type Metric struct {
	// Name ends in the base unit, such as temperature_celsius; that of a counter in _total.
	Name string `json:"name"`
	// File is below the object, or below /sys: a template. It may be FILE#NAME, as for Health.
	File string `json:"file"`
	// Scale is what the number is multiplied by; 0 for 1.
	Scale float64 `json:"scale"`
}
