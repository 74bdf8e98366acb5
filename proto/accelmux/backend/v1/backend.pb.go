// The contract between the accelmux core and a backend.
//
// A backend is a program that knows one kind of hardware, and a manifest: a file beside
// it that says what the program is, which settings it takes and what it may do. The core
// reads the manifest, starts the program as a child process, asks it which devices the node
// has, and serves them to Kubernetes. A backend states facts; the core decides. A backend never talks
// to kubelet or to the API server, never writes CDI files, and never learns
// which pod uses a device.
//
// # Writing a backend in any language
//
// 1. Handshake. The core starts the program without arguments and with these
//    environment variables (and no others but PATH, HOME, LANG, TZ and those
//    that the configuration lists), in a process group of its own, with / as its
//    working directory and nothing on standard input:
//
//      ACCELMUX_BACKEND         the value 8b3f0d2c-accelmux-backend; a program
//                               without it was started by hand: it prints that
//                               on standard error and exits with status 1
//      PLUGIN_PROTOCOL_VERSIONS comma-separated protocol versions that the core
//                               speaks; this file is version 1
//      PLUGIN_UNIX_SOCKET_DIR   a private directory for the listening socket
//      PLUGIN_CLIENT_CERT       the core's certificate, PEM; the server speaks
//                               TLS 1.2 or later and accepts this client alone
//      PLUGIN_OPEN_FILES_FD     the number of an inherited socket for questions,
//                               see 6; missing if there is none
//
//    The program listens on a unix socket in that directory and prints exactly
//    one line on standard output:
//
//      1|<protocol version>|unix|<socket path>|grpc|<certificate>
//
//    (the handshake of github.com/hashicorp/go-plugin, core version 1). The
//    certificate is the server's own, made for this start: self-signed, for the
//    DNS name localhost, with a key that TLS libraries commonly accept, such as
//    P-256, as DER in standard base64 without padding. Nothing may
//    be printed before that line, and nothing on standard output after it.
//    Standard error is the log: a line that is a JSON object with @level
//    (trace, debug, info, warn, error), @message and further keys keeps its
//    level; any other line is logged at debug.
//
//    The server also serves grpc.health.v1.Health (health.proto of gRPC): Check
//    answers SERVING for the service "plugin"; the core ends a process that does
//    not. Health's Watch is not used. Nothing else of go-plugin's
//    own services is used. A backend in Go calls sdk.Serve and has all of this.
//
// 2. Calls, in order: Configure, Watch. Configure may come again at
//    any time, also while Watch streams. Prepare, Release, Reset and Sample come
//    only if the manifest has the ability. There is at most one Watch stream
//    and at most one Sample stream. Prepare, Release and Reset run in parallel
//    for different devices, never for the same one.
//
// 3. Every call but Watch and Sample carries its deadline (gRPC's grpc-timeout
//    header; every gRPC library offers it to the handler). The limits below are
//    the usual ones.
//    A backend that exceeds the deadline of Configure or the first
//    inventory, or that sends no heartbeat, is killed and started again, with
//    back-off. A Prepare, Release or Reset that exceeds its deadline is cancelled
//    and has failed; the process and the calls for other devices continue. The
//    backend must abandon a cancelled call immediately: the next call for the
//    device comes 5 s later at the earliest, and Release follows a Prepare that
//    failed when its holder is gone. An error's gRPC status code does not matter,
//    its text does; write it for the reader that the call names.
//
// 4. A backend that loses its parent must exit within 5 s: ask the kernel for a
//    signal (PR_SET_PDEATHSIG), or see whether getppid() changes. To end a backend
//    the core sends SIGTERM to the process group, and SIGKILL 2 s later.
//
// 5. State that must outlive the process, such as what Release needs, belongs into
//    files below a directory of the backend's settings.
//
// 6. A program in its sandbox cannot see what other processes have open. It may ask
//    which of them have device nodes open, so that it resets no device in use, on the
//    socket of PLUGIN_OPEN_FILES_FD (SOCK_SEQPACKET, unix(7)). A packet of at most
//    64 KiB is one JSON object, a request or its answer:
//
//      {"id": 1, "nodes": ["/dev/acme0", "/dev/acme1"]}
//      {"id": 1, "processes": [{"pid": 1234, "name": "python3"}]}
//      {"id": 1, "error": "why it is not known, for the reader of an error"}
//
//    The id is any number. Nodes are at most 256 paths, as links in /proc/PID/fd have
//    them. Each must be a file that the manifest and the configuration give to the
//    process, or a device node that they give to containers. The answer has at most 256 processes,
//    without the program's own. An answer with neither processes nor error means none.
//    It comes within 10 s; requests are answered one after the other, ten a second in
//    the long run. Without the variable the program scans /proc itself.
//
// `accelmux check-backend PROGRAM` checks a program against these rules.
//
// A message is at most 8 MiB in both directions; many gRPC libraries receive only
// 4 MiB by default. A message from a backend may also take at most 20 MiB of the
// core's memory. The core estimates this as the length of all strings and, in an
// inventory, about 1 KiB for each device, 50 bytes for each attribute, 80 for each
// link, 90 for each device node and 8 for each number of a list; in a sample,
// 0.9 KiB for each metric and 0.4 KiB for each label. 4,096 devices with 20
// attributes and 16 links each take four fifths of the 20 MiB. A process that
// sends more in Watch is ended and started again, with back-off; the devices of
// its last accepted inventory stay for the holdover. A sample that takes more ends
// only the Sample stream.
//
// # Kubernetes
//
// The core serves a device by the device plugin API or by dynamic resource
// allocation (DRA, resource.k8s.io/v1). This is how fields map to the latter; a
// backend needs to know neither:
//
//   Device.id                   Device.name: a DNS label that the core derives
//                               from it, and the attribute accelmux.io/id
//   Device.attributes           Device.attributes; a name without a domain gets
//                               the driver's
//   Device.numa_nodes           the attribute resource.kubernetes.io/numaNode,
//                               if there is exactly one
//   Device.pci_bus_id           the attribute resource.kubernetes.io/pciBusID
//   Device.capacities           Device.capacity, value and requestPolicy
//   Device.shareable            Device.allowMultipleAllocations
//   Inventory.counter_sets      ResourceSliceSpec.sharedCounters, without what devices
//                               consume that exist and that no Prepare made
//   Device.consumes             Device.consumesCounters of a potential device, and of
//                               one that Prepare made
//   Device.slow_to_prepare      Device.bindsToNode, bindingConditions and
//                               bindingFailureConditions
//   Health, while unhealthy     Device.taints (key accelmux.io/<code>, effect by
//                               reach) and the device health in pod.status
//   Device.edits                the CDI device of the device
//   PrepareResponse.edits       the CDI device of the claim
//   Holder                      the ResourceClaim's UID, or one container's
//                               allocation by the device plugin API
//   PrepareRequest.parameters_json
//                               DeviceClaimConfiguration.opaque.parameters
//
// A rule about a name, a value or an amount that says "as resource.k8s.io" is
// that of the API's own validation: the API server accepts every slice that the
// core makes of an inventory.
//
// # Compatibility
//
// Fields are only ever added. An unknown field must be ignored. Protocol
// version 2 will be a package of its own, negotiated in the handshake.

// Code generated by protoc-gen-go. DO NOT EDIT.
// versions:
// 	protoc-gen-go v1.36.12
// 	protoc        (unknown)
// source: accelmux/backend/v1/backend.proto

package backendv1

import (
	protoreflect "google.golang.org/protobuf/reflect/protoreflect"
	protoimpl "google.golang.org/protobuf/runtime/protoimpl"
	durationpb "google.golang.org/protobuf/types/known/durationpb"
	timestamppb "google.golang.org/protobuf/types/known/timestamppb"
	reflect "reflect"
	sync "sync"
	unsafe "unsafe"
)

const (
	// Verify that this generated code is sufficiently up-to-date.
	_ = protoimpl.EnforceVersion(20 - protoimpl.MinVersion)
	// Verify that runtime/protoimpl is sufficiently up-to-date.
	_ = protoimpl.EnforceVersion(protoimpl.MaxVersion - 20)
)

// Hook is a call that a device asks for.
type Hook int32

const (
	Hook_HOOK_UNSPECIFIED Hook = 0
	// Prepare must succeed before a container with this device starts.
	Hook_HOOK_PREPARE Hook = 1
	// Release must follow when a holder is gone.
	Hook_HOOK_RELEASE Hook = 2
)

// Enum value maps for Hook.
var (
	Hook_name = map[int32]string{
		0: "HOOK_UNSPECIFIED",
		1: "HOOK_PREPARE",
		2: "HOOK_RELEASE",
	}
	Hook_value = map[string]int32{
		"HOOK_UNSPECIFIED": 0,
		"HOOK_PREPARE":     1,
		"HOOK_RELEASE":     2,
	}
)

func (x Hook) Enum() *Hook {
	p := new(Hook)
	*p = x
	return p
}

func (x Hook) String() string {
	return protoimpl.X.EnumStringOf(x.Descriptor(), protoreflect.EnumNumber(x))
}

func (Hook) Descriptor() protoreflect.EnumDescriptor {
	return file_accelmux_backend_v1_backend_proto_enumTypes[0].Descriptor()
}

func (Hook) Type() protoreflect.EnumType {
	return &file_accelmux_backend_v1_backend_proto_enumTypes[0]
}

func (x Hook) Number() protoreflect.EnumNumber {
	return protoreflect.EnumNumber(x)
}

// Deprecated: Use Hook.Descriptor instead.
func (Hook) EnumDescriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{0}
}

// Reach says whom a fault affects; a later value is graver. The core makes a taint
// of it under DRA. Kubelet's device plugin API knows healthy and unhealthy alone:
// there each of these is unhealthy, and no pod is evicted.
type Reach int32

const (
	// As REACH_DEVICE.
	Reach_REACH_UNSPECIFIED Reach = 0
	// The device goes to no new holder (a taint with NoSchedule). Those that have it
	// may continue: for them it stays healthy in pod.status.
	Reach_REACH_NEW_HOLDERS Reach = 1
	// The device does not work: no new holder gets it, and for those that have it it
	// is unhealthy in pod.status.
	Reach_REACH_DEVICE Reach = 2
	// As REACH_DEVICE, and pods that have it must be moved away (a taint with
	// NoExecute).
	Reach_REACH_HOLDERS Reach = 3
)

// Enum value maps for Reach.
var (
	Reach_name = map[int32]string{
		0: "REACH_UNSPECIFIED",
		1: "REACH_NEW_HOLDERS",
		2: "REACH_DEVICE",
		3: "REACH_HOLDERS",
	}
	Reach_value = map[string]int32{
		"REACH_UNSPECIFIED": 0,
		"REACH_NEW_HOLDERS": 1,
		"REACH_DEVICE":      2,
		"REACH_HOLDERS":     3,
	}
)

func (x Reach) Enum() *Reach {
	p := new(Reach)
	*p = x
	return p
}

func (x Reach) String() string {
	return protoimpl.X.EnumStringOf(x.Descriptor(), protoreflect.EnumNumber(x))
}

func (Reach) Descriptor() protoreflect.EnumDescriptor {
	return file_accelmux_backend_v1_backend_proto_enumTypes[1].Descriptor()
}

func (Reach) Type() protoreflect.EnumType {
	return &file_accelmux_backend_v1_backend_proto_enumTypes[1]
}

func (x Reach) Number() protoreflect.EnumNumber {
	return protoreflect.EnumNumber(x)
}

// Deprecated: Use Reach.Descriptor instead.
func (Reach) EnumDescriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{1}
}

// HealthState is what a backend can report of a device now.
type HealthState int32

const (
	// As unknown.
	HealthState_HEALTH_STATE_UNSPECIFIED HealthState = 0
	// Nothing is known to be wrong.
	HealthState_HEALTH_STATE_HEALTHY HealthState = 1
	// The device must not be given to new containers.
	HealthState_HEALTH_STATE_UNHEALTHY HealthState = 2
	// The backend cannot tell. Not a fault: an earlier state stays.
	HealthState_HEALTH_STATE_UNKNOWN HealthState = 3
)

// Enum value maps for HealthState.
var (
	HealthState_name = map[int32]string{
		0: "HEALTH_STATE_UNSPECIFIED",
		1: "HEALTH_STATE_HEALTHY",
		2: "HEALTH_STATE_UNHEALTHY",
		3: "HEALTH_STATE_UNKNOWN",
	}
	HealthState_value = map[string]int32{
		"HEALTH_STATE_UNSPECIFIED": 0,
		"HEALTH_STATE_HEALTHY":     1,
		"HEALTH_STATE_UNHEALTHY":   2,
		"HEALTH_STATE_UNKNOWN":     3,
	}
)

func (x HealthState) Enum() *HealthState {
	p := new(HealthState)
	*p = x
	return p
}

func (x HealthState) String() string {
	return protoimpl.X.EnumStringOf(x.Descriptor(), protoreflect.EnumNumber(x))
}

func (HealthState) Descriptor() protoreflect.EnumDescriptor {
	return file_accelmux_backend_v1_backend_proto_enumTypes[2].Descriptor()
}

func (HealthState) Type() protoreflect.EnumType {
	return &file_accelmux_backend_v1_backend_proto_enumTypes[2]
}

func (x HealthState) Number() protoreflect.EnumNumber {
	return protoreflect.EnumNumber(x)
}

// Deprecated: Use HealthState.Descriptor instead.
func (HealthState) EnumDescriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{2}
}

// Recovery is the least that must happen before the device works again; a later
// value is graver.
type Recovery int32

const (
	Recovery_RECOVERY_UNSPECIFIED Recovery = 0
	// Passes on its own: too hot, a link that retrains, a reset in progress. Cleared
	// when the backend reports healthy.
	Recovery_RECOVERY_SELF Recovery = 1
	// Needs a reset of the device (Reset, where the backend has it).
	Recovery_RECOVERY_RESET Recovery = 2
	// Needs a reboot of the node.
	Recovery_RECOVERY_REBOOT Recovery = 3
	// Needs other hardware.
	Recovery_RECOVERY_REPLACEMENT Recovery = 4
)

// Enum value maps for Recovery.
var (
	Recovery_name = map[int32]string{
		0: "RECOVERY_UNSPECIFIED",
		1: "RECOVERY_SELF",
		2: "RECOVERY_RESET",
		3: "RECOVERY_REBOOT",
		4: "RECOVERY_REPLACEMENT",
	}
	Recovery_value = map[string]int32{
		"RECOVERY_UNSPECIFIED": 0,
		"RECOVERY_SELF":        1,
		"RECOVERY_RESET":       2,
		"RECOVERY_REBOOT":      3,
		"RECOVERY_REPLACEMENT": 4,
	}
)

func (x Recovery) Enum() *Recovery {
	p := new(Recovery)
	*p = x
	return p
}

func (x Recovery) String() string {
	return protoimpl.X.EnumStringOf(x.Descriptor(), protoreflect.EnumNumber(x))
}

func (Recovery) Descriptor() protoreflect.EnumDescriptor {
	return file_accelmux_backend_v1_backend_proto_enumTypes[3].Descriptor()
}

func (Recovery) Type() protoreflect.EnumType {
	return &file_accelmux_backend_v1_backend_proto_enumTypes[3]
}

func (x Recovery) Number() protoreflect.EnumNumber {
	return protoreflect.EnumNumber(x)
}

// Deprecated: Use Recovery.Descriptor instead.
func (Recovery) EnumDescriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{3}
}

// LinkKind is the kind of a direct link, or of the best path between two devices.
// For the PCIe kinds it is the closest common ancestor.
type LinkKind int32

const (
	LinkKind_LINK_KIND_UNSPECIFIED LinkKind = 0
	// NVIDIA NVLink, point to point.
	LinkKind_LINK_KIND_NVLINK LinkKind = 1
	// NVLink through a switch: every pair is equal.
	LinkKind_LINK_KIND_NVSWITCH LinkKind = 2
	// AMD XGMI (Infinity Fabric).
	LinkKind_LINK_KIND_XGMI LinkKind = 3
	// Partitions or dies of one physical device.
	LinkKind_LINK_KIND_SAME_DEVICE LinkKind = 4
	// On one board, behind its own PCIe switch.
	LinkKind_LINK_KIND_PCIE_SAME_BOARD LinkKind = 5
	// One PCIe switch.
	LinkKind_LINK_KIND_PCIE_SWITCH LinkKind = 6
	// Several PCIe switches, without the host bridge.
	LinkKind_LINK_KIND_PCIE_MULTI_SWITCH LinkKind = 7
	// Through a PCIe host bridge.
	LinkKind_LINK_KIND_PCIE_HOST_BRIDGE LinkKind = 8
	// Through the interconnect inside one NUMA node.
	LinkKind_LINK_KIND_SAME_NUMA LinkKind = 9
	// Across NUMA nodes.
	LinkKind_LINK_KIND_CROSS_NUMA LinkKind = 10
	// A kind of the vendor's own; distance says how far.
	LinkKind_LINK_KIND_OTHER LinkKind = 11
)

// Enum value maps for LinkKind.
var (
	LinkKind_name = map[int32]string{
		0:  "LINK_KIND_UNSPECIFIED",
		1:  "LINK_KIND_NVLINK",
		2:  "LINK_KIND_NVSWITCH",
		3:  "LINK_KIND_XGMI",
		4:  "LINK_KIND_SAME_DEVICE",
		5:  "LINK_KIND_PCIE_SAME_BOARD",
		6:  "LINK_KIND_PCIE_SWITCH",
		7:  "LINK_KIND_PCIE_MULTI_SWITCH",
		8:  "LINK_KIND_PCIE_HOST_BRIDGE",
		9:  "LINK_KIND_SAME_NUMA",
		10: "LINK_KIND_CROSS_NUMA",
		11: "LINK_KIND_OTHER",
	}
	LinkKind_value = map[string]int32{
		"LINK_KIND_UNSPECIFIED":       0,
		"LINK_KIND_NVLINK":            1,
		"LINK_KIND_NVSWITCH":          2,
		"LINK_KIND_XGMI":              3,
		"LINK_KIND_SAME_DEVICE":       4,
		"LINK_KIND_PCIE_SAME_BOARD":   5,
		"LINK_KIND_PCIE_SWITCH":       6,
		"LINK_KIND_PCIE_MULTI_SWITCH": 7,
		"LINK_KIND_PCIE_HOST_BRIDGE":  8,
		"LINK_KIND_SAME_NUMA":         9,
		"LINK_KIND_CROSS_NUMA":        10,
		"LINK_KIND_OTHER":             11,
	}
)

func (x LinkKind) Enum() *LinkKind {
	p := new(LinkKind)
	*p = x
	return p
}

func (x LinkKind) String() string {
	return protoimpl.X.EnumStringOf(x.Descriptor(), protoreflect.EnumNumber(x))
}

func (LinkKind) Descriptor() protoreflect.EnumDescriptor {
	return file_accelmux_backend_v1_backend_proto_enumTypes[4].Descriptor()
}

func (LinkKind) Type() protoreflect.EnumType {
	return &file_accelmux_backend_v1_backend_proto_enumTypes[4]
}

func (x LinkKind) Number() protoreflect.EnumNumber {
	return protoreflect.EnumNumber(x)
}

// Deprecated: Use LinkKind.Descriptor instead.
func (LinkKind) EnumDescriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{4}
}

// HolderKind is the sort of a holder.
type HolderKind int32

const (
	HolderKind_HOLDER_KIND_UNSPECIFIED HolderKind = 0
	// What one Allocate of the device plugin API gave to one container. Kubelet gives
	// the devices of an init container to a later container of its pod before either
	// starts: both are then prepared as the later one's holder.
	HolderKind_HOLDER_KIND_CONTAINER HolderKind = 1
	// A ResourceClaim, which several containers and pods may use.
	HolderKind_HOLDER_KIND_CLAIM HolderKind = 2
)

// Enum value maps for HolderKind.
var (
	HolderKind_name = map[int32]string{
		0: "HOLDER_KIND_UNSPECIFIED",
		1: "HOLDER_KIND_CONTAINER",
		2: "HOLDER_KIND_CLAIM",
	}
	HolderKind_value = map[string]int32{
		"HOLDER_KIND_UNSPECIFIED": 0,
		"HOLDER_KIND_CONTAINER":   1,
		"HOLDER_KIND_CLAIM":       2,
	}
)

func (x HolderKind) Enum() *HolderKind {
	p := new(HolderKind)
	*p = x
	return p
}

func (x HolderKind) String() string {
	return protoimpl.X.EnumStringOf(x.Descriptor(), protoreflect.EnumNumber(x))
}

func (HolderKind) Descriptor() protoreflect.EnumDescriptor {
	return file_accelmux_backend_v1_backend_proto_enumTypes[5].Descriptor()
}

func (HolderKind) Type() protoreflect.EnumType {
	return &file_accelmux_backend_v1_backend_proto_enumTypes[5]
}

func (x HolderKind) Number() protoreflect.EnumNumber {
	return protoreflect.EnumNumber(x)
}

// Deprecated: Use HolderKind.Descriptor instead.
func (HolderKind) EnumDescriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{5}
}

// MetricKind says how a value behaves over time.
type MetricKind int32

const (
	MetricKind_METRIC_KIND_UNSPECIFIED MetricKind = 0
	// Goes up and down.
	MetricKind_METRIC_KIND_GAUGE MetricKind = 1
	// Only grows, until the device or its driver is reset.
	MetricKind_METRIC_KIND_COUNTER MetricKind = 2
)

// Enum value maps for MetricKind.
var (
	MetricKind_name = map[int32]string{
		0: "METRIC_KIND_UNSPECIFIED",
		1: "METRIC_KIND_GAUGE",
		2: "METRIC_KIND_COUNTER",
	}
	MetricKind_value = map[string]int32{
		"METRIC_KIND_UNSPECIFIED": 0,
		"METRIC_KIND_GAUGE":       1,
		"METRIC_KIND_COUNTER":     2,
	}
)

func (x MetricKind) Enum() *MetricKind {
	p := new(MetricKind)
	*p = x
	return p
}

func (x MetricKind) String() string {
	return protoimpl.X.EnumStringOf(x.Descriptor(), protoreflect.EnumNumber(x))
}

func (MetricKind) Descriptor() protoreflect.EnumDescriptor {
	return file_accelmux_backend_v1_backend_proto_enumTypes[6].Descriptor()
}

func (MetricKind) Type() protoreflect.EnumType {
	return &file_accelmux_backend_v1_backend_proto_enumTypes[6]
}

func (x MetricKind) Number() protoreflect.EnumNumber {
	return protoreflect.EnumNumber(x)
}

// Deprecated: Use MetricKind.Descriptor instead.
func (MetricKind) EnumDescriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{6}
}

type ConfigureRequest struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The backend's settings as one JSON object; "{}" if there are none.
	SettingsJson []byte `protobuf:"bytes,1,opt,name=settings_json,json=settingsJson,proto3" json:"settings_json,omitempty"`
	// Where the host's trees are; never hard-code them.
	Paths *HostPaths `protobuf:"bytes,2,opt,name=paths,proto3" json:"paths,omitempty"`
	// Identifies these settings within the process; grows with each call, from 1.
	Revision      uint64 `protobuf:"varint,3,opt,name=revision,proto3" json:"revision,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ConfigureRequest) Reset() {
	*x = ConfigureRequest{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[0]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ConfigureRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ConfigureRequest) ProtoMessage() {}

func (x *ConfigureRequest) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[0]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ConfigureRequest.ProtoReflect.Descriptor instead.
func (*ConfigureRequest) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{0}
}

func (x *ConfigureRequest) GetSettingsJson() []byte {
	if x != nil {
		return x.SettingsJson
	}
	return nil
}

func (x *ConfigureRequest) GetPaths() *HostPaths {
	if x != nil {
		return x.Paths
	}
	return nil
}

func (x *ConfigureRequest) GetRevision() uint64 {
	if x != nil {
		return x.Revision
	}
	return 0
}

// HostPaths are the places that a container or a test may move. Every path is
// absolute. They say where the backend reads; paths that it reports in
// ContainerEdits are the host's own, without these prefixes. Paths in settings are
// used as they are.
type HostPaths struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// Root of sysfs, usually /sys.
	Sysfs string `protobuf:"bytes,1,opt,name=sysfs,proto3" json:"sysfs,omitempty"`
	// Root of the device nodes, usually /dev.
	Devfs string `protobuf:"bytes,2,opt,name=devfs,proto3" json:"devfs,omitempty"`
	// Root of procfs, usually /proc.
	Procfs        string `protobuf:"bytes,3,opt,name=procfs,proto3" json:"procfs,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *HostPaths) Reset() {
	*x = HostPaths{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[1]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *HostPaths) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*HostPaths) ProtoMessage() {}

func (x *HostPaths) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[1]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use HostPaths.ProtoReflect.Descriptor instead.
func (*HostPaths) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{1}
}

func (x *HostPaths) GetSysfs() string {
	if x != nil {
		return x.Sysfs
	}
	return ""
}

func (x *HostPaths) GetDevfs() string {
	if x != nil {
		return x.Devfs
	}
	return ""
}

func (x *HostPaths) GetProcfs() string {
	if x != nil {
		return x.Procfs
	}
	return ""
}

type ConfigureResponse struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The backend's name and version: those of its manifest. The core ends a process that
	// answers with others.
	Name    string `protobuf:"bytes,1,opt,name=name,proto3" json:"name,omitempty"`
	Version string `protobuf:"bytes,2,opt,name=version,proto3" json:"version,omitempty"`
	// Why the settings were refused; empty means accepted. At most 64 count.
	Errors        []*FieldError `protobuf:"bytes,3,rep,name=errors,proto3" json:"errors,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ConfigureResponse) Reset() {
	*x = ConfigureResponse{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[2]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ConfigureResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ConfigureResponse) ProtoMessage() {}

func (x *ConfigureResponse) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[2]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ConfigureResponse.ProtoReflect.Descriptor instead.
func (*ConfigureResponse) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{2}
}

func (x *ConfigureResponse) GetName() string {
	if x != nil {
		return x.Name
	}
	return ""
}

func (x *ConfigureResponse) GetVersion() string {
	if x != nil {
		return x.Version
	}
	return ""
}

func (x *ConfigureResponse) GetErrors() []*FieldError {
	if x != nil {
		return x.Errors
	}
	return nil
}

type FieldError struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// Path of the field in the settings, such as "devices[2].memory"; empty for
	// the settings as a whole.
	Field string `protobuf:"bytes,1,opt,name=field,proto3" json:"field,omitempty"`
	// What is wrong with it and what would be right.
	Message       string `protobuf:"bytes,2,opt,name=message,proto3" json:"message,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *FieldError) Reset() {
	*x = FieldError{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[3]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *FieldError) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*FieldError) ProtoMessage() {}

func (x *FieldError) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[3]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use FieldError.ProtoReflect.Descriptor instead.
func (*FieldError) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{3}
}

func (x *FieldError) GetField() string {
	if x != nil {
		return x.Field
	}
	return ""
}

func (x *FieldError) GetMessage() string {
	if x != nil {
		return x.Message
	}
	return ""
}

type WatchRequest struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// How often a heartbeat or an inventory must come at least; between 100 ms and 1 min. The core
	// acts after three missed ones. Unset means 10 s.
	HeartbeatInterval *durationpb.Duration `protobuf:"bytes,1,opt,name=heartbeat_interval,json=heartbeatInterval,proto3" json:"heartbeat_interval,omitempty"`
	unknownFields     protoimpl.UnknownFields
	sizeCache         protoimpl.SizeCache
}

func (x *WatchRequest) Reset() {
	*x = WatchRequest{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[4]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *WatchRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*WatchRequest) ProtoMessage() {}

func (x *WatchRequest) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[4]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use WatchRequest.ProtoReflect.Descriptor instead.
func (*WatchRequest) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{4}
}

func (x *WatchRequest) GetHeartbeatInterval() *durationpb.Duration {
	if x != nil {
		return x.HeartbeatInterval
	}
	return nil
}

type WatchResponse struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// Types that are valid to be assigned to Event:
	//
	//	*WatchResponse_Inventory
	//	*WatchResponse_Heartbeat
	Event         isWatchResponse_Event `protobuf_oneof:"event"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *WatchResponse) Reset() {
	*x = WatchResponse{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[5]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *WatchResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*WatchResponse) ProtoMessage() {}

func (x *WatchResponse) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[5]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use WatchResponse.ProtoReflect.Descriptor instead.
func (*WatchResponse) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{5}
}

func (x *WatchResponse) GetEvent() isWatchResponse_Event {
	if x != nil {
		return x.Event
	}
	return nil
}

func (x *WatchResponse) GetInventory() *Inventory {
	if x != nil {
		if x, ok := x.Event.(*WatchResponse_Inventory); ok {
			return x.Inventory
		}
	}
	return nil
}

func (x *WatchResponse) GetHeartbeat() *Heartbeat {
	if x != nil {
		if x, ok := x.Event.(*WatchResponse_Heartbeat); ok {
			return x.Heartbeat
		}
	}
	return nil
}

type isWatchResponse_Event interface {
	isWatchResponse_Event()
}

type WatchResponse_Inventory struct {
	Inventory *Inventory `protobuf:"bytes,1,opt,name=inventory,proto3,oneof"`
}

type WatchResponse_Heartbeat struct {
	Heartbeat *Heartbeat `protobuf:"bytes,2,opt,name=heartbeat,proto3,oneof"`
}

func (*WatchResponse_Inventory) isWatchResponse_Event() {}

func (*WatchResponse_Heartbeat) isWatchResponse_Event() {}

// Heartbeat reports that the loop that monitors the hardware completed a round.
// It must come from that loop, not from a timer beside it, so that a wedged
// monitor is noticed even though the server still answers. A loop that reads the
// hardware in other threads, with a time limit, goes on with heartbeats, and reports
// the device that does not answer as unhealthy or unknown, or in problems.
type Heartbeat struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Heartbeat) Reset() {
	*x = Heartbeat{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[6]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Heartbeat) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Heartbeat) ProtoMessage() {}

func (x *Heartbeat) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[6]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use Heartbeat.ProtoReflect.Descriptor instead.
func (*Heartbeat) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{6}
}

// Inventory is everything that the backend knows, never a difference. The first
// event of a stream that is no heartbeat is an inventory.
type Inventory struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// Counts the inventories of this process, from 1, strictly increasing.
	Generation uint64 `protobuf:"varint,1,opt,name=generation,proto3" json:"generation,omitempty"`
	// All devices, in a stable order. At most 4,096. A device that does not answer (in
	// reset, lost by the driver) stays listed, as unhealthy; one that was removed on
	// purpose, or that its bus no longer has, is left out.
	Devices []*Device `protobuf:"bytes,2,rep,name=devices,proto3" json:"devices,omitempty"`
	// What an operator must know about hardware that could not be listed, one
	// message each: "0000:65:00.0: card did not answer". At most 64.
	Problems []string `protobuf:"bytes,3,rep,name=problems,proto3" json:"problems,omitempty"`
	// ConfigureRequest.revision of the settings that this inventory follows from: of
	// the latest accepted ones, once the loop that monitors the hardware uses them.
	// The core refuses an inventory with a revision that is not of accepted settings.
	SettingsRevision uint64 `protobuf:"varint,4,opt,name=settings_revision,json=settingsRevision,proto3" json:"settings_revision,omitempty"`
	// What devices consume parts of; see Device.consumes. At most 4,096.
	CounterSets []*CounterSet `protobuf:"bytes,5,rep,name=counter_sets,json=counterSets,proto3" json:"counter_sets,omitempty"`
	// Labels of the node as the vendor's own tools name them. The core publishes those
	// whose prefix the configuration lists (vendorLabels). At most 256.
	NodeLabels    []*NodeLabel `protobuf:"bytes,6,rep,name=node_labels,json=nodeLabels,proto3" json:"node_labels,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Inventory) Reset() {
	*x = Inventory{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[7]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Inventory) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Inventory) ProtoMessage() {}

func (x *Inventory) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[7]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use Inventory.ProtoReflect.Descriptor instead.
func (*Inventory) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{7}
}

func (x *Inventory) GetGeneration() uint64 {
	if x != nil {
		return x.Generation
	}
	return 0
}

func (x *Inventory) GetDevices() []*Device {
	if x != nil {
		return x.Devices
	}
	return nil
}

func (x *Inventory) GetProblems() []string {
	if x != nil {
		return x.Problems
	}
	return nil
}

func (x *Inventory) GetSettingsRevision() uint64 {
	if x != nil {
		return x.SettingsRevision
	}
	return 0
}

func (x *Inventory) GetCounterSets() []*CounterSet {
	if x != nil {
		return x.CounterSets
	}
	return nil
}

func (x *Inventory) GetNodeLabels() []*NodeLabel {
	if x != nil {
		return x.NodeLabels
	}
	return nil
}

// NodeLabel is a label of the node that the backend's vendor has defined, such as
// nvidia.com/gpu.product, so that selectors written for the vendor's own tools still
// match. A label that breaks a rule is left out with a problem.
type NodeLabel struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// A DNS subdomain of at most 100 characters, a slash, and a name, as Kubernetes
	// requires of labels; unique in the inventory.
	Name string `protobuf:"bytes,1,opt,name=name,proto3" json:"name,omitempty"`
	// A valid value of a label: at most 63 characters, or empty.
	Value string `protobuf:"bytes,2,opt,name=value,proto3" json:"value,omitempty"`
	// ID of the device that decides between the two values; empty: always value.
	DeviceId string `protobuf:"bytes,3,opt,name=device_id,json=deviceId,proto3" json:"device_id,omitempty"`
	// The value if the configuration lets several containers share that device.
	// "{replicas}" in it stands for how many may.
	SharedValue   string `protobuf:"bytes,4,opt,name=shared_value,json=sharedValue,proto3" json:"shared_value,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *NodeLabel) Reset() {
	*x = NodeLabel{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[8]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *NodeLabel) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*NodeLabel) ProtoMessage() {}

func (x *NodeLabel) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[8]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use NodeLabel.ProtoReflect.Descriptor instead.
func (*NodeLabel) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{8}
}

func (x *NodeLabel) GetName() string {
	if x != nil {
		return x.Name
	}
	return ""
}

func (x *NodeLabel) GetValue() string {
	if x != nil {
		return x.Value
	}
	return ""
}

func (x *NodeLabel) GetDeviceId() string {
	if x != nil {
		return x.DeviceId
	}
	return ""
}

func (x *NodeLabel) GetSharedValue() string {
	if x != nil {
		return x.SharedValue
	}
	return ""
}

// CounterSet has the amounts that the devices of, usually, one physical device
// share, such as the memory slices of a GPU that its partitions take. Devices
// whose consumption does not fit into what is left are not allocated, so that
// devices that exclude each other can be listed side by side.
type CounterSet struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// A DNS label, unique in the inventory.
	Name string `protobuf:"bytes,1,opt,name=name,proto3" json:"name,omitempty"`
	// Amounts by name, a DNS label, none of them negative. 1 to 32.
	Counters      map[string]int64 `protobuf:"bytes,2,rep,name=counters,proto3" json:"counters,omitempty" protobuf_key:"bytes,1,opt,name=key" protobuf_val:"varint,2,opt,name=value"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *CounterSet) Reset() {
	*x = CounterSet{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[9]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *CounterSet) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*CounterSet) ProtoMessage() {}

func (x *CounterSet) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[9]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use CounterSet.ProtoReflect.Descriptor instead.
func (*CounterSet) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{9}
}

func (x *CounterSet) GetName() string {
	if x != nil {
		return x.Name
	}
	return ""
}

func (x *CounterSet) GetCounters() map[string]int64 {
	if x != nil {
		return x.Counters
	}
	return nil
}

// CounterConsumption is what a device consumes of one counter set while it is
// allocated, or while it exists if it is not a potential device.
type CounterConsumption struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The name of a counter set of the same inventory.
	CounterSet string `protobuf:"bytes,1,opt,name=counter_set,json=counterSet,proto3" json:"counter_set,omitempty"`
	// Amounts by name of the counter, above 0. At least one.
	Counters      map[string]int64 `protobuf:"bytes,2,rep,name=counters,proto3" json:"counters,omitempty" protobuf_key:"bytes,1,opt,name=key" protobuf_val:"varint,2,opt,name=value"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *CounterConsumption) Reset() {
	*x = CounterConsumption{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[10]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *CounterConsumption) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*CounterConsumption) ProtoMessage() {}

func (x *CounterConsumption) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[10]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use CounterConsumption.ProtoReflect.Descriptor instead.
func (*CounterConsumption) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{10}
}

func (x *CounterConsumption) GetCounterSet() string {
	if x != nil {
		return x.CounterSet
	}
	return ""
}

func (x *CounterConsumption) GetCounters() map[string]int64 {
	if x != nil {
		return x.Counters
	}
	return nil
}

// Device is one thing that a container can be given.
//
// # Potential devices
//
// A potential device does not exist yet: Prepare makes it and Release undoes it,
// such as a MIG instance, a virtual function or a programmed region. It has an ID
// of its own (made of the parent's ID and its place and kind, so that it is the
// same after a restart), the attributes and capacities that it would have, the
// counters that it would consume, and both hooks. Its edits are for admin access alone
// (DRA): what a monitor gets of the device that it would be made of; without any, admin
// access is refused. PrepareResponse has those of what was made. While it is made for a holder it stays listed under its
// ID, with potential unset, made_for set and its edits; after Release it is potential
// again. If it cannot be made, Prepare answers an error, nothing is left behind, and
// the device stays listed as potential, unhealthy if the next attempt would fail, too.
//
// Before it makes a device, the backend stores for whom, as in point 5 above. So it
// finds what a process made that crashed: that stays listed, with made_for, until
// Release. The core calls Release for the holder that made_for names, also if it does
// not know that holder: its own record was lost.
//
// A device made by another program, or by hand, under the ID of a potential one is an
// ordinary device: it is listed with potential and made_for unset, Prepare gives it
// out as it is and returns its edits, and Release leaves it.
//
// Potential devices are served by DRA alone; the device plugin API has no way to
// express them.
type Device struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// Stable over restarts, reboots, driver reloads and hot-plug, unique in the
	// inventory, at most 63 characters of [A-Za-z0-9_.:-], starting with a letter
	// or digit; never containing "::", which marks replicas. It must identify the
	// hardware (a UUID, a serial number), not its place in a list. It becomes the
	// device's name in ResourceSlices, in lower case and with '-' for '_', '.' and
	// ':'; the names must be unique, too.
	Id string `protobuf:"bytes,1,opt,name=id,proto3" json:"id,omitempty"`
	// One of the classes of the manifest.
	Class  string  `protobuf:"bytes,2,opt,name=class,proto3" json:"class,omitempty"`
	Health *Health `protobuf:"bytes,3,opt,name=health,proto3" json:"health,omitempty"`
	// NUMA nodes the device is close to; empty if unknown (sysfs says -1).
	NumaNodes []uint32 `protobuf:"varint,4,rep,packed,name=numa_nodes,json=numaNodes,proto3" json:"numa_nodes,omitempty"`
	// PCI address, domain:bus:device.function in lower-case hex with at least four
	// digits of domain, such as 0000:65:00.0; empty if there is none.
	PciBusId string `protobuf:"bytes,5,opt,name=pci_bus_id,json=pciBusId,proto3" json:"pci_bus_id,omitempty"`
	// What selectors can ask for, by name as resource.k8s.io: a C identifier of at
	// most 32 characters, which is the backend's own, or one after a DNS subdomain
	// of at most 63 characters and a slash, such as resource.kubernetes.io/pcieRoot
	// or another name that several vendors share. The domain accelmux.io is the
	// core's. "model" should always be there. At most 128 attributes and capacities
	// together (the manifest has their order of importance), with at most 48 values in all lists and
	// single values that DRA publishes. An attribute that breaks a rule is left out
	// with a problem; the device stays.
	Attributes map[string]*Attribute `protobuf:"bytes,6,rep,name=attributes,proto3" json:"attributes,omitempty" protobuf_key:"bytes,1,opt,name=key" protobuf_val:"bytes,2,opt,name=value"`
	// Amounts in base units (bytes, watts, units), such as memory, not negative. Names
	// and what follows from a broken rule are as for attributes.
	Capacities map[string]int64 `protobuf:"bytes,7,rep,name=capacities,proto3" json:"capacities,omitempty" protobuf_key:"bytes,1,opt,name=key" protobuf_val:"varint,2,opt,name=value"`
	// How close other devices of this inventory are: at most one direct link (NVLink,
	// XGMI, same device) and one path (PCIe, NUMA, other) to each. A device without a link
	// counts as farther than any with one. At most 1,024 links, and 65,536 for all devices
	// of the inventory together: each device may have an equal share of them.
	Links []*Link `protobuf:"bytes,8,rep,name=links,proto3" json:"links,omitempty"`
	// ID of the physical device that this one is a partition of, whether or not
	// that is listed itself; empty for a whole device. A fault of the parent is a
	// fault of all its partitions.
	ParentId string `protobuf:"bytes,9,opt,name=parent_id,json=parentId,proto3" json:"parent_id,omitempty"`
	// Devices with the same non-empty reset group lose their state together when
	// one of them is reset. Empty: the device is reset alone. At most 128 bytes.
	ResetGroup string `protobuf:"bytes,10,opt,name=reset_group,json=resetGroup,proto3" json:"reset_group,omitempty"`
	// What a container gets with this device. A healthy device that is not potential
	// has at least one edit; one without is advertised as unhealthy, and so is one
	// whose only edits are variables of env_separators: see there.
	Edits *ContainerEdits `protobuf:"bytes,11,opt,name=edits,proto3" json:"edits,omitempty"`
	// Calls the core must make for this device.
	Hooks []Hook `protobuf:"varint,12,rep,packed,name=hooks,proto3,enum=accelmux.backend.v1.Hook" json:"hooks,omitempty"`
	// For how many containers at a time the device is prepared already, such as by
	// limits of memory that are set for so many; 0 if that makes no difference to it.
	// The core advertises as many replicas as its configuration says, whatever this
	// is, and reports a problem where the two differ.
	PreparedFor uint32 `protobuf:"varint,13,opt,name=prepared_for,json=preparedFor,proto3" json:"prepared_for,omitempty"`
	// Several holders may have the device at the same time, each with its part of the
	// capacities that have a request policy. Only DRA shares it by amounts; the device
	// plugin API has replicas, which the configuration asks for.
	Shareable bool `protobuf:"varint,14,opt,name=shareable,proto3" json:"shareable,omitempty"`
	// How a holder may request a part of a capacity, by its name. Only of a shareable
	// device. A capacity without a policy is every holder's in full.
	RequestPolicies map[string]*RequestPolicy `protobuf:"bytes,15,rep,name=request_policies,json=requestPolicies,proto3" json:"request_policies,omitempty" protobuf_key:"bytes,1,opt,name=key" protobuf_val:"bytes,2,opt,name=value"`
	// What the device consumes of counter sets; at most 2 (as resource.k8s.io), each
	// of another set. Existing devices must fit into their sets together: one that
	// does not is left out, in the order of the inventory.
	Consumes []*CounterConsumption `protobuf:"bytes,16,rep,name=consumes,proto3" json:"consumes,omitempty"`
	// The device does not exist yet.
	Potential bool `protobuf:"varint,17,opt,name=potential,proto3" json:"potential,omitempty"`
	// ID of the holder for which Prepare made the device, which Release for that holder
	// undoes. Empty for a device that exists without Prepare. Not together with potential;
	// such a device has both hooks.
	MadeFor string `protobuf:"bytes,18,opt,name=made_for,json=madeFor,proto3" json:"made_for,omitempty"`
	// Prepare of the device takes long: more than a few seconds, such as programming an FPGA. Where
	// the cluster can wait for that (binding conditions of resource.k8s.io), Prepare for a claim comes before
	// its pod is bound to the node, with a deadline of 9 min; if it fails, the scheduler chooses again. Elsewhere
	// it comes when the container starts, with the same deadline. Only with HOOK_PREPARE.
	SlowToPrepare bool `protobuf:"varint,19,opt,name=slow_to_prepare,json=slowToPrepare,proto3" json:"slow_to_prepare,omitempty"`
	// What a container with admin access (resource.k8s.io DeviceRequest.adminAccess) gets in
	// addition to edits, such as what a monitor reads. Neither Prepare nor Release is called
	// for such a container, since others may have the device. A variable that edits have, too,
	// has this value. Not joined.
	AdminEdits    *ContainerEdits `protobuf:"bytes,20,opt,name=admin_edits,json=adminEdits,proto3" json:"admin_edits,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Device) Reset() {
	*x = Device{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[11]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Device) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Device) ProtoMessage() {}

func (x *Device) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[11]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use Device.ProtoReflect.Descriptor instead.
func (*Device) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{11}
}

func (x *Device) GetId() string {
	if x != nil {
		return x.Id
	}
	return ""
}

func (x *Device) GetClass() string {
	if x != nil {
		return x.Class
	}
	return ""
}

func (x *Device) GetHealth() *Health {
	if x != nil {
		return x.Health
	}
	return nil
}

func (x *Device) GetNumaNodes() []uint32 {
	if x != nil {
		return x.NumaNodes
	}
	return nil
}

func (x *Device) GetPciBusId() string {
	if x != nil {
		return x.PciBusId
	}
	return ""
}

func (x *Device) GetAttributes() map[string]*Attribute {
	if x != nil {
		return x.Attributes
	}
	return nil
}

func (x *Device) GetCapacities() map[string]int64 {
	if x != nil {
		return x.Capacities
	}
	return nil
}

func (x *Device) GetLinks() []*Link {
	if x != nil {
		return x.Links
	}
	return nil
}

func (x *Device) GetParentId() string {
	if x != nil {
		return x.ParentId
	}
	return ""
}

func (x *Device) GetResetGroup() string {
	if x != nil {
		return x.ResetGroup
	}
	return ""
}

func (x *Device) GetEdits() *ContainerEdits {
	if x != nil {
		return x.Edits
	}
	return nil
}

func (x *Device) GetHooks() []Hook {
	if x != nil {
		return x.Hooks
	}
	return nil
}

func (x *Device) GetPreparedFor() uint32 {
	if x != nil {
		return x.PreparedFor
	}
	return 0
}

func (x *Device) GetShareable() bool {
	if x != nil {
		return x.Shareable
	}
	return false
}

func (x *Device) GetRequestPolicies() map[string]*RequestPolicy {
	if x != nil {
		return x.RequestPolicies
	}
	return nil
}

func (x *Device) GetConsumes() []*CounterConsumption {
	if x != nil {
		return x.Consumes
	}
	return nil
}

func (x *Device) GetPotential() bool {
	if x != nil {
		return x.Potential
	}
	return false
}

func (x *Device) GetMadeFor() string {
	if x != nil {
		return x.MadeFor
	}
	return ""
}

func (x *Device) GetSlowToPrepare() bool {
	if x != nil {
		return x.SlowToPrepare
	}
	return false
}

func (x *Device) GetAdminEdits() *ContainerEdits {
	if x != nil {
		return x.AdminEdits
	}
	return nil
}

// RequestPolicy bounds what a holder may request of a capacity. Amounts that lie
// between are rounded up, as resource.k8s.io CapacityRequestPolicy. Without values
// and range every amount up to the capacity is possible.
type RequestPolicy struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// What a holder gets that requests nothing: above 0, and one of the amounts that
	// are possible.
	Default int64 `protobuf:"varint,1,opt,name=default,proto3" json:"default,omitempty"`
	// The possible amounts, ascending, at most 10. Only without range.
	Values        []int64      `protobuf:"varint,2,rep,packed,name=values,proto3" json:"values,omitempty"`
	Range         *AmountRange `protobuf:"bytes,3,opt,name=range,proto3" json:"range,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *RequestPolicy) Reset() {
	*x = RequestPolicy{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[12]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *RequestPolicy) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*RequestPolicy) ProtoMessage() {}

func (x *RequestPolicy) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[12]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use RequestPolicy.ProtoReflect.Descriptor instead.
func (*RequestPolicy) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{12}
}

func (x *RequestPolicy) GetDefault() int64 {
	if x != nil {
		return x.Default
	}
	return 0
}

func (x *RequestPolicy) GetValues() []int64 {
	if x != nil {
		return x.Values
	}
	return nil
}

func (x *RequestPolicy) GetRange() *AmountRange {
	if x != nil {
		return x.Range
	}
	return nil
}

// AmountRange are the amounts from min to max in equal steps.
type AmountRange struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The least amount.
	Min int64 `protobuf:"varint,1,opt,name=min,proto3" json:"min,omitempty"`
	// The greatest; 0 stands for the whole capacity. A multiple of step.
	Max int64 `protobuf:"varint,2,opt,name=max,proto3" json:"max,omitempty"`
	// The distance between two possible amounts; 0 allows every amount.
	Step          int64 `protobuf:"varint,3,opt,name=step,proto3" json:"step,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *AmountRange) Reset() {
	*x = AmountRange{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[13]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *AmountRange) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*AmountRange) ProtoMessage() {}

func (x *AmountRange) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[13]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use AmountRange.ProtoReflect.Descriptor instead.
func (*AmountRange) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{13}
}

func (x *AmountRange) GetMin() int64 {
	if x != nil {
		return x.Min
	}
	return 0
}

func (x *AmountRange) GetMax() int64 {
	if x != nil {
		return x.Max
	}
	return 0
}

func (x *AmountRange) GetStep() int64 {
	if x != nil {
		return x.Step
	}
	return 0
}

// Health is what the backend sees now. The core remembers: a fault stays until
// there is evidence that it is over, also over a restart of the backend. Faults
// with different codes are different faults; a device has as many as it reported
// one after the other, and the gravest counts.
type Health struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	State HealthState            `protobuf:"varint,1,opt,name=state,proto3,enum=accelmux.backend.v1.HealthState" json:"state,omitempty"`
	// Short machine-readable name of the fault, such as "xid-79" or
	// "ecc-uncorrectable": at most 63 characters of [A-Za-z0-9_.-]. Required if
	// unhealthy.
	Code string `protobuf:"bytes,2,opt,name=code,proto3" json:"code,omitempty"`
	// What happened and what to do, for the operator; at most 1,024 bytes.
	Message string `protobuf:"bytes,3,opt,name=message,proto3" json:"message,omitempty"`
	// How the device may become healthy again. Required if unhealthy.
	Recovery Recovery `protobuf:"varint,4,opt,name=recovery,proto3,enum=accelmux.backend.v1.Recovery" json:"recovery,omitempty"`
	// Only with HEALTH_STATE_HEALTHY: the backend has evidence that everything that was
	// wrong before is over (a counter read back, a self-test, a driver's recovery
	// action of "none"). Clears every earlier fault. Without it, healthy means
	// "nothing new", and clears only faults of RECOVERY_SELF.
	Recovered bool `protobuf:"varint,5,opt,name=recovered,proto3" json:"recovered,omitempty"`
	// Codes of earlier faults that the backend has evidence are over, in any state;
	// other faults stay. A code that there is no fault of means nothing. At most 32.
	ClearedCodes []string `protobuf:"bytes,6,rep,name=cleared_codes,json=clearedCodes,proto3" json:"cleared_codes,omitempty"`
	// Whom the fault affects. Only if unhealthy.
	Reach         Reach `protobuf:"varint,7,opt,name=reach,proto3,enum=accelmux.backend.v1.Reach" json:"reach,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Health) Reset() {
	*x = Health{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[14]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Health) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Health) ProtoMessage() {}

func (x *Health) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[14]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use Health.ProtoReflect.Descriptor instead.
func (*Health) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{14}
}

func (x *Health) GetState() HealthState {
	if x != nil {
		return x.State
	}
	return HealthState_HEALTH_STATE_UNSPECIFIED
}

func (x *Health) GetCode() string {
	if x != nil {
		return x.Code
	}
	return ""
}

func (x *Health) GetMessage() string {
	if x != nil {
		return x.Message
	}
	return ""
}

func (x *Health) GetRecovery() Recovery {
	if x != nil {
		return x.Recovery
	}
	return Recovery_RECOVERY_UNSPECIFIED
}

func (x *Health) GetRecovered() bool {
	if x != nil {
		return x.Recovered
	}
	return false
}

func (x *Health) GetClearedCodes() []string {
	if x != nil {
		return x.ClearedCodes
	}
	return nil
}

func (x *Health) GetReach() Reach {
	if x != nil {
		return x.Reach
	}
	return Reach_REACH_UNSPECIFIED
}

// Attribute is a typed value or a list of values, as resource.k8s.io/v1
// DeviceAttribute. A list has at least one value; the API server accepts lists only
// behind the feature gate DRAListTypeAttributes, the node's own selectors always.
type Attribute struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// Types that are valid to be assigned to Value:
	//
	//	*Attribute_StringValue
	//	*Attribute_IntValue
	//	*Attribute_BoolValue
	//	*Attribute_VersionValue
	//	*Attribute_StringValues
	//	*Attribute_IntValues
	//	*Attribute_BoolValues
	//	*Attribute_VersionValues
	Value         isAttribute_Value `protobuf_oneof:"value"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Attribute) Reset() {
	*x = Attribute{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[15]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Attribute) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Attribute) ProtoMessage() {}

func (x *Attribute) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[15]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use Attribute.ProtoReflect.Descriptor instead.
func (*Attribute) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{15}
}

func (x *Attribute) GetValue() isAttribute_Value {
	if x != nil {
		return x.Value
	}
	return nil
}

func (x *Attribute) GetStringValue() string {
	if x != nil {
		if x, ok := x.Value.(*Attribute_StringValue); ok {
			return x.StringValue
		}
	}
	return ""
}

func (x *Attribute) GetIntValue() int64 {
	if x != nil {
		if x, ok := x.Value.(*Attribute_IntValue); ok {
			return x.IntValue
		}
	}
	return 0
}

func (x *Attribute) GetBoolValue() bool {
	if x != nil {
		if x, ok := x.Value.(*Attribute_BoolValue); ok {
			return x.BoolValue
		}
	}
	return false
}

func (x *Attribute) GetVersionValue() string {
	if x != nil {
		if x, ok := x.Value.(*Attribute_VersionValue); ok {
			return x.VersionValue
		}
	}
	return ""
}

func (x *Attribute) GetStringValues() *Strings {
	if x != nil {
		if x, ok := x.Value.(*Attribute_StringValues); ok {
			return x.StringValues
		}
	}
	return nil
}

func (x *Attribute) GetIntValues() *Ints {
	if x != nil {
		if x, ok := x.Value.(*Attribute_IntValues); ok {
			return x.IntValues
		}
	}
	return nil
}

func (x *Attribute) GetBoolValues() *Bools {
	if x != nil {
		if x, ok := x.Value.(*Attribute_BoolValues); ok {
			return x.BoolValues
		}
	}
	return nil
}

func (x *Attribute) GetVersionValues() *Strings {
	if x != nil {
		if x, ok := x.Value.(*Attribute_VersionValues); ok {
			return x.VersionValues
		}
	}
	return nil
}

type isAttribute_Value interface {
	isAttribute_Value()
}

type Attribute_StringValue struct {
	// At most 64 bytes.
	StringValue string `protobuf:"bytes,1,opt,name=string_value,json=stringValue,proto3,oneof"`
}

type Attribute_IntValue struct {
	IntValue int64 `protobuf:"varint,2,opt,name=int_value,json=intValue,proto3,oneof"`
}

type Attribute_BoolValue struct {
	BoolValue bool `protobuf:"varint,3,opt,name=bool_value,json=boolValue,proto3,oneof"`
}

type Attribute_VersionValue struct {
	// A semantic version, major.minor.patch, of at most 64 bytes.
	VersionValue string `protobuf:"bytes,4,opt,name=version_value,json=versionValue,proto3,oneof"`
}

type Attribute_StringValues struct {
	// Each as string_value.
	StringValues *Strings `protobuf:"bytes,5,opt,name=string_values,json=stringValues,proto3,oneof"`
}

type Attribute_IntValues struct {
	IntValues *Ints `protobuf:"bytes,6,opt,name=int_values,json=intValues,proto3,oneof"`
}

type Attribute_BoolValues struct {
	BoolValues *Bools `protobuf:"bytes,7,opt,name=bool_values,json=boolValues,proto3,oneof"`
}

type Attribute_VersionValues struct {
	// Each as version_value.
	VersionValues *Strings `protobuf:"bytes,8,opt,name=version_values,json=versionValues,proto3,oneof"`
}

func (*Attribute_StringValue) isAttribute_Value() {}

func (*Attribute_IntValue) isAttribute_Value() {}

func (*Attribute_BoolValue) isAttribute_Value() {}

func (*Attribute_VersionValue) isAttribute_Value() {}

func (*Attribute_StringValues) isAttribute_Value() {}

func (*Attribute_IntValues) isAttribute_Value() {}

func (*Attribute_BoolValues) isAttribute_Value() {}

func (*Attribute_VersionValues) isAttribute_Value() {}

// Strings is a list of strings.
type Strings struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Values        []string               `protobuf:"bytes,1,rep,name=values,proto3" json:"values,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Strings) Reset() {
	*x = Strings{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[16]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Strings) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Strings) ProtoMessage() {}

func (x *Strings) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[16]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use Strings.ProtoReflect.Descriptor instead.
func (*Strings) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{16}
}

func (x *Strings) GetValues() []string {
	if x != nil {
		return x.Values
	}
	return nil
}

// Ints is a list of numbers.
type Ints struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Values        []int64                `protobuf:"varint,1,rep,packed,name=values,proto3" json:"values,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Ints) Reset() {
	*x = Ints{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[17]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Ints) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Ints) ProtoMessage() {}

func (x *Ints) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[17]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use Ints.ProtoReflect.Descriptor instead.
func (*Ints) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{17}
}

func (x *Ints) GetValues() []int64 {
	if x != nil {
		return x.Values
	}
	return nil
}

// Bools is a list of truth values.
type Bools struct {
	state         protoimpl.MessageState `protogen:"open.v1"`
	Values        []bool                 `protobuf:"varint,1,rep,packed,name=values,proto3" json:"values,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Bools) Reset() {
	*x = Bools{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[18]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Bools) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Bools) ProtoMessage() {}

func (x *Bools) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[18]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use Bools.ProtoReflect.Descriptor instead.
func (*Bools) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{18}
}

func (x *Bools) GetValues() []bool {
	if x != nil {
		return x.Values
	}
	return nil
}

// Link says how close a peer is, in this direction.
type Link struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// ID of the other device.
	PeerId string   `protobuf:"bytes,1,opt,name=peer_id,json=peerId,proto3" json:"peer_id,omitempty"`
	Kind   LinkKind `protobuf:"varint,2,opt,name=kind,proto3,enum=accelmux.backend.v1.LinkKind" json:"kind,omitempty"`
	// How many such links lie side by side (NVLink lanes); 0 means 1.
	Count uint32 `protobuf:"varint,3,opt,name=count,proto3" json:"count,omitempty"`
	// The driver's own distance where it has one (the kernel's KFD io_link
	// weight: lower is closer); 0 if it has none.
	Distance      uint32 `protobuf:"varint,4,opt,name=distance,proto3" json:"distance,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Link) Reset() {
	*x = Link{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[19]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Link) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Link) ProtoMessage() {}

func (x *Link) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[19]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use Link.ProtoReflect.Descriptor instead.
func (*Link) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{19}
}

func (x *Link) GetPeerId() string {
	if x != nil {
		return x.PeerId
	}
	return ""
}

func (x *Link) GetKind() LinkKind {
	if x != nil {
		return x.Kind
	}
	return LinkKind_LINK_KIND_UNSPECIFIED
}

func (x *Link) GetCount() uint32 {
	if x != nil {
		return x.Count
	}
	return 0
}

func (x *Link) GetDistance() uint32 {
	if x != nil {
		return x.Distance
	}
	return 0
}

// ContainerEdits is what a container gets, in the terms of the Container Device
// Interface (tags.cncf.io/container-device-interface, specs-go). Edits are limited
// to what the manifest and the node's configuration allow; a device with
// others is left out, with a problem that names them.
type ContainerEdits struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// NAME=value by name; the name matches [A-Za-z_][A-Za-z0-9_.-]*. If several devices
	// in one container set the same variable, one of them counts, unless
	// env_separators joins their values.
	Env map[string]string `protobuf:"bytes,1,rep,name=env,proto3" json:"env,omitempty" protobuf_key:"bytes,1,opt,name=key" protobuf_val:"bytes,2,opt,name=value"`
	// The core checks that each node exists before it advertises the device; while one
	// is missing, the device is unhealthy, with a problem that names the node.
	DeviceNodes []*DeviceNode `protobuf:"bytes,2,rep,name=device_nodes,json=deviceNodes,proto3" json:"device_nodes,omitempty"`
	Mounts      []*Mount      `protobuf:"bytes,3,rep,name=mounts,proto3" json:"mounts,omitempty"`
	// OCI hooks; refused unless the configuration allows them.
	Hooks []*OciHook `protobuf:"bytes,4,rep,name=hooks,proto3" json:"hooks,omitempty"`
	// Supplementary group IDs. One that neither owns one of the device nodes nor is
	// allowed is left out, with a problem.
	AdditionalGids []uint32 `protobuf:"varint,5,rep,packed,name=additional_gids,json=additionalGids,proto3" json:"additional_gids,omitempty"`
	// By name, those variables of env whose values are joined if a container gets
	// several devices that set them, and what stands between the values, such as
	// ",": at most 16 bytes, on one line. A value may itself be such a list; each
	// of its parts comes once, in the order of the devices' IDs. All devices that a
	// container may get together must agree on it: one that joins a variable and
	// another that sets it otherwise are refused in one container. The core joins
	// what one Kubernetes resource gives to a container; kubelet joins nothing, so
	// a container should not get the same variable from two resources.
	//
	// A joined value depends on the container, and a CDI device does not: its
	// definition cannot have it. The core passes it in the answer to kubelet's
	// Allocate, or in the holder's own CDI device. So a device needs another edit,
	// such as a node, to have a CDI device at all: one whose only edits are joined
	// variables is unhealthy.
	EnvSeparators map[string]string `protobuf:"bytes,6,rep,name=env_separators,json=envSeparators,proto3" json:"env_separators,omitempty" protobuf_key:"bytes,1,opt,name=key" protobuf_val:"bytes,2,opt,name=value"`
	// Network interfaces that are moved into the container's network namespace, by hooks that the
	// core adds. Only CDI carries these: a resource with injection plain cannot have such a device.
	NetDevices    []*NetDevice `protobuf:"bytes,7,rep,name=net_devices,json=netDevices,proto3" json:"net_devices,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ContainerEdits) Reset() {
	*x = ContainerEdits{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[20]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ContainerEdits) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ContainerEdits) ProtoMessage() {}

func (x *ContainerEdits) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[20]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ContainerEdits.ProtoReflect.Descriptor instead.
func (*ContainerEdits) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{20}
}

func (x *ContainerEdits) GetEnv() map[string]string {
	if x != nil {
		return x.Env
	}
	return nil
}

func (x *ContainerEdits) GetDeviceNodes() []*DeviceNode {
	if x != nil {
		return x.DeviceNodes
	}
	return nil
}

func (x *ContainerEdits) GetMounts() []*Mount {
	if x != nil {
		return x.Mounts
	}
	return nil
}

func (x *ContainerEdits) GetHooks() []*OciHook {
	if x != nil {
		return x.Hooks
	}
	return nil
}

func (x *ContainerEdits) GetAdditionalGids() []uint32 {
	if x != nil {
		return x.AdditionalGids
	}
	return nil
}

func (x *ContainerEdits) GetEnvSeparators() map[string]string {
	if x != nil {
		return x.EnvSeparators
	}
	return nil
}

func (x *ContainerEdits) GetNetDevices() []*NetDevice {
	if x != nil {
		return x.NetDevices
	}
	return nil
}

// NetDevice is a network interface. It is moved back to the host when the container ends. Should
// that fail, the kernel does it for a physical interface when the pod ends, and removes a
// virtual one.
type NetDevice struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// The interface's name on the host, as in /sys/class/net.
	HostName string `protobuf:"bytes,1,opt,name=host_name,json=hostName,proto3" json:"host_name,omitempty"`
	// Its name in the container; empty: the same.
	Name          string `protobuf:"bytes,2,opt,name=name,proto3" json:"name,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *NetDevice) Reset() {
	*x = NetDevice{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[21]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *NetDevice) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*NetDevice) ProtoMessage() {}

func (x *NetDevice) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[21]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use NetDevice.ProtoReflect.Descriptor instead.
func (*NetDevice) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{21}
}

func (x *NetDevice) GetHostName() string {
	if x != nil {
		return x.HostName
	}
	return ""
}

func (x *NetDevice) GetName() string {
	if x != nil {
		return x.Name
	}
	return ""
}

type DeviceNode struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// Path in the container. Required, absolute and clean.
	Path string `protobuf:"bytes,1,opt,name=path,proto3" json:"path,omitempty"`
	// Path on the host; empty means the same. If it is a link, or if the kernel has
	// another name for its number, that must be allowed, too.
	HostPath string `protobuf:"bytes,2,opt,name=host_path,json=hostPath,proto3" json:"host_path,omitempty"`
	// Cgroup permissions, a subset of "rwm"; empty means "rw".
	Permissions   string `protobuf:"bytes,3,opt,name=permissions,proto3" json:"permissions,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *DeviceNode) Reset() {
	*x = DeviceNode{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[22]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *DeviceNode) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*DeviceNode) ProtoMessage() {}

func (x *DeviceNode) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[22]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use DeviceNode.ProtoReflect.Descriptor instead.
func (*DeviceNode) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{22}
}

func (x *DeviceNode) GetPath() string {
	if x != nil {
		return x.Path
	}
	return ""
}

func (x *DeviceNode) GetHostPath() string {
	if x != nil {
		return x.HostPath
	}
	return ""
}

func (x *DeviceNode) GetPermissions() string {
	if x != nil {
		return x.Permissions
	}
	return ""
}

type Mount struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// File or directory on the host. Required, absolute and clean. What links and bind
	// mounts lead to must be allowed, too. It must not be in a directory that the
	// backend writes to (process.write of the manifest), which itself may be mounted.
	HostPath string `protobuf:"bytes,1,opt,name=host_path,json=hostPath,proto3" json:"host_path,omitempty"`
	// Path in the container. Required, absolute and clean.
	ContainerPath string `protobuf:"bytes,2,opt,name=container_path,json=containerPath,proto3" json:"container_path,omitempty"`
	// Mounted read-only unless set.
	Writable bool `protobuf:"varint,3,opt,name=writable,proto3" json:"writable,omitempty"`
	// Further mount options, such as "nosuid".
	Options []string `protobuf:"bytes,4,rep,name=options,proto3" json:"options,omitempty"`
	// The container can start without this mount. If it is not allowed, it is left out
	// and the core reports a problem. A device with a mount that is neither optional
	// nor allowed is left out.
	Optional      bool `protobuf:"varint,5,opt,name=optional,proto3" json:"optional,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Mount) Reset() {
	*x = Mount{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[23]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Mount) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Mount) ProtoMessage() {}

func (x *Mount) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[23]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use Mount.ProtoReflect.Descriptor instead.
func (*Mount) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{23}
}

func (x *Mount) GetHostPath() string {
	if x != nil {
		return x.HostPath
	}
	return ""
}

func (x *Mount) GetContainerPath() string {
	if x != nil {
		return x.ContainerPath
	}
	return ""
}

func (x *Mount) GetWritable() bool {
	if x != nil {
		return x.Writable
	}
	return false
}

func (x *Mount) GetOptions() []string {
	if x != nil {
		return x.Options
	}
	return nil
}

func (x *Mount) GetOptional() bool {
	if x != nil {
		return x.Optional
	}
	return false
}

type OciHook struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// createRuntime, createContainer, startContainer, poststart or poststop.
	HookName string `protobuf:"bytes,1,opt,name=hook_name,json=hookName,proto3" json:"hook_name,omitempty"`
	// Program on the host (or in the container for startContainer). On the host, it and
	// the directories above must belong to root, and be writable for no other user.
	Path string `protobuf:"bytes,2,opt,name=path,proto3" json:"path,omitempty"`
	// Its arguments, the program's name first.
	Args []string `protobuf:"bytes,3,rep,name=args,proto3" json:"args,omitempty"`
	// NAME=value.
	Env           []string `protobuf:"bytes,4,rep,name=env,proto3" json:"env,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *OciHook) Reset() {
	*x = OciHook{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[24]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *OciHook) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*OciHook) ProtoMessage() {}

func (x *OciHook) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[24]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use OciHook.ProtoReflect.Descriptor instead.
func (*OciHook) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{24}
}

func (x *OciHook) GetHookName() string {
	if x != nil {
		return x.HookName
	}
	return ""
}

func (x *OciHook) GetPath() string {
	if x != nil {
		return x.Path
	}
	return ""
}

func (x *OciHook) GetArgs() []string {
	if x != nil {
		return x.Args
	}
	return nil
}

func (x *OciHook) GetEnv() []string {
	if x != nil {
		return x.Env
	}
	return nil
}

// Holder is what holds devices: a container or a claim. Two holders of a shared
// device are two holders; what Prepare returns for one is never given to the other.
type Holder struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// Opaque, printable ASCII, 1 to 253 characters; the same in all calls for this
	// holder, never used again for another.
	Id            string     `protobuf:"bytes,1,opt,name=id,proto3" json:"id,omitempty"`
	Kind          HolderKind `protobuf:"varint,2,opt,name=kind,proto3,enum=accelmux.backend.v1.HolderKind" json:"kind,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Holder) Reset() {
	*x = Holder{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[25]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Holder) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Holder) ProtoMessage() {}

func (x *Holder) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[25]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use Holder.ProtoReflect.Descriptor instead.
func (*Holder) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{25}
}

func (x *Holder) GetId() string {
	if x != nil {
		return x.Id
	}
	return ""
}

func (x *Holder) GetKind() HolderKind {
	if x != nil {
		return x.Kind
	}
	return HolderKind_HOLDER_KIND_UNSPECIFIED
}

// HeldDevice is a device in the hands of a holder.
type HeldDevice struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	Id    string                 `protobuf:"bytes,1,opt,name=id,proto3" json:"id,omitempty"`
	// Another holder has the device, too, or may have it. Nothing that disturbs that
	// one may be done to it, such as a reset or loading something else.
	Shared bool `protobuf:"varint,2,opt,name=shared,proto3" json:"shared,omitempty"`
	// How much of each capacity with a request policy the holder has; of a device that
	// is not shared by amounts, and in Release, none.
	Capacities    map[string]int64 `protobuf:"bytes,3,rep,name=capacities,proto3" json:"capacities,omitempty" protobuf_key:"bytes,1,opt,name=key" protobuf_val:"varint,2,opt,name=value"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *HeldDevice) Reset() {
	*x = HeldDevice{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[26]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *HeldDevice) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*HeldDevice) ProtoMessage() {}

func (x *HeldDevice) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[26]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use HeldDevice.ProtoReflect.Descriptor instead.
func (*HeldDevice) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{26}
}

func (x *HeldDevice) GetId() string {
	if x != nil {
		return x.Id
	}
	return ""
}

func (x *HeldDevice) GetShared() bool {
	if x != nil {
		return x.Shared
	}
	return false
}

func (x *HeldDevice) GetCapacities() map[string]int64 {
	if x != nil {
		return x.Capacities
	}
	return nil
}

type PrepareRequest struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// Who will have the devices.
	Holder *Holder `protobuf:"bytes,1,opt,name=holder,proto3" json:"holder,omitempty"`
	// The devices of this backend that the holder was given, those with HOOK_PREPARE.
	Devices []*HeldDevice `protobuf:"bytes,2,rep,name=devices,proto3" json:"devices,omitempty"`
	// The Kubernetes resource or device class that they were requested as, such as
	// nvidia.com/gpu.
	Resource string `protobuf:"bytes,3,opt,name=resource,proto3" json:"resource,omitempty"`
	// What the holder asks of the devices, such as which program to load: one JSON
	// object that the manifest's schema of parameters accepts, of at most 10 KiB; empty
	// if it asks for nothing. Never trust it: a pod's author may have written it.
	ParametersJson []byte `protobuf:"bytes,4,opt,name=parameters_json,json=parametersJson,proto3" json:"parameters_json,omitempty"`
	unknownFields  protoimpl.UnknownFields
	sizeCache      protoimpl.SizeCache
}

func (x *PrepareRequest) Reset() {
	*x = PrepareRequest{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[27]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *PrepareRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*PrepareRequest) ProtoMessage() {}

func (x *PrepareRequest) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[27]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use PrepareRequest.ProtoReflect.Descriptor instead.
func (*PrepareRequest) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{27}
}

func (x *PrepareRequest) GetHolder() *Holder {
	if x != nil {
		return x.Holder
	}
	return nil
}

func (x *PrepareRequest) GetDevices() []*HeldDevice {
	if x != nil {
		return x.Devices
	}
	return nil
}

func (x *PrepareRequest) GetResource() string {
	if x != nil {
		return x.Resource
	}
	return ""
}

func (x *PrepareRequest) GetParametersJson() []byte {
	if x != nil {
		return x.ParametersJson
	}
	return nil
}

type PrepareResponse struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// Edits that are known only now (the node of a function that was just
	// programmed), by device ID; this holder alone gets them, in addition to the
	// device's own. A variable of the same name as one of the device's own replaces
	// that; if it is joined, it is joined with those of the container's other devices.
	// By the device plugin API they need CDI: where the configuration has the resource
	// injected without it, a Prepare that returns edits fails the start.
	Edits         map[string]*ContainerEdits `protobuf:"bytes,1,rep,name=edits,proto3" json:"edits,omitempty" protobuf_key:"bytes,1,opt,name=key" protobuf_val:"bytes,2,opt,name=value"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *PrepareResponse) Reset() {
	*x = PrepareResponse{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[28]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *PrepareResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*PrepareResponse) ProtoMessage() {}

func (x *PrepareResponse) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[28]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use PrepareResponse.ProtoReflect.Descriptor instead.
func (*PrepareResponse) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{28}
}

func (x *PrepareResponse) GetEdits() map[string]*ContainerEdits {
	if x != nil {
		return x.Edits
	}
	return nil
}

type ReleaseRequest struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// Who had the devices; the holder of Prepare.
	Holder *Holder `protobuf:"bytes,1,opt,name=holder,proto3" json:"holder,omitempty"`
	// The devices that it had, those with HOOK_RELEASE. shared: another holder still
	// has the device.
	Devices       []*HeldDevice `protobuf:"bytes,2,rep,name=devices,proto3" json:"devices,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ReleaseRequest) Reset() {
	*x = ReleaseRequest{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[29]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ReleaseRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ReleaseRequest) ProtoMessage() {}

func (x *ReleaseRequest) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[29]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ReleaseRequest.ProtoReflect.Descriptor instead.
func (*ReleaseRequest) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{29}
}

func (x *ReleaseRequest) GetHolder() *Holder {
	if x != nil {
		return x.Holder
	}
	return nil
}

func (x *ReleaseRequest) GetDevices() []*HeldDevice {
	if x != nil {
		return x.Devices
	}
	return nil
}

type ReleaseResponse struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// One for each device of the request; the core calls again for one that is
	// missing or was not released.
	Results       []*ReleaseResult `protobuf:"bytes,1,rep,name=results,proto3" json:"results,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ReleaseResponse) Reset() {
	*x = ReleaseResponse{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[30]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ReleaseResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ReleaseResponse) ProtoMessage() {}

func (x *ReleaseResponse) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[30]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ReleaseResponse.ProtoReflect.Descriptor instead.
func (*ReleaseResponse) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{30}
}

func (x *ReleaseResponse) GetResults() []*ReleaseResult {
	if x != nil {
		return x.Results
	}
	return nil
}

// ReleaseResult is what Release did for one device.
type ReleaseResult struct {
	state    protoimpl.MessageState `protogen:"open.v1"`
	DeviceId string                 `protobuf:"bytes,1,opt,name=device_id,json=deviceId,proto3" json:"device_id,omitempty"`
	// Nothing of the holder is left on the device.
	Released bool `protobuf:"varint,2,opt,name=released,proto3" json:"released,omitempty"`
	// Why not; at most 1,024 bytes.
	Message       string `protobuf:"bytes,3,opt,name=message,proto3" json:"message,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ReleaseResult) Reset() {
	*x = ReleaseResult{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[31]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ReleaseResult) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ReleaseResult) ProtoMessage() {}

func (x *ReleaseResult) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[31]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ReleaseResult.ProtoReflect.Descriptor instead.
func (*ReleaseResult) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{31}
}

func (x *ReleaseResult) GetDeviceId() string {
	if x != nil {
		return x.DeviceId
	}
	return ""
}

func (x *ReleaseResult) GetReleased() bool {
	if x != nil {
		return x.Released
	}
	return false
}

func (x *ReleaseResult) GetMessage() string {
	if x != nil {
		return x.Message
	}
	return ""
}

type ResetRequest struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// All devices of one reset group, or a single one.
	DeviceIds     []string `protobuf:"bytes,1,rep,name=device_ids,json=deviceIds,proto3" json:"device_ids,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ResetRequest) Reset() {
	*x = ResetRequest{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[32]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ResetRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ResetRequest) ProtoMessage() {}

func (x *ResetRequest) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[32]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ResetRequest.ProtoReflect.Descriptor instead.
func (*ResetRequest) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{32}
}

func (x *ResetRequest) GetDeviceIds() []string {
	if x != nil {
		return x.DeviceIds
	}
	return nil
}

type ResetResponse struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// One for each device of the request; a device that is missing was not reset.
	Results       []*ResetResult `protobuf:"bytes,1,rep,name=results,proto3" json:"results,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ResetResponse) Reset() {
	*x = ResetResponse{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[33]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ResetResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ResetResponse) ProtoMessage() {}

func (x *ResetResponse) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[33]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ResetResponse.ProtoReflect.Descriptor instead.
func (*ResetResponse) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{33}
}

func (x *ResetResponse) GetResults() []*ResetResult {
	if x != nil {
		return x.Results
	}
	return nil
}

// ResetResult is what Reset did to one device.
type ResetResult struct {
	state    protoimpl.MessageState `protogen:"open.v1"`
	DeviceId string                 `protobuf:"bytes,1,opt,name=device_id,json=deviceId,proto3" json:"device_id,omitempty"`
	// The reset was done and the device was healthy afterwards: faults that need
	// no more than a reset are over.
	Recovered bool `protobuf:"varint,2,opt,name=recovered,proto3" json:"recovered,omitempty"`
	// Why not, or what was done; at most 1,024 bytes.
	Message       string `protobuf:"bytes,3,opt,name=message,proto3" json:"message,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *ResetResult) Reset() {
	*x = ResetResult{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[34]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *ResetResult) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*ResetResult) ProtoMessage() {}

func (x *ResetResult) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[34]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use ResetResult.ProtoReflect.Descriptor instead.
func (*ResetResult) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{34}
}

func (x *ResetResult) GetDeviceId() string {
	if x != nil {
		return x.DeviceId
	}
	return ""
}

func (x *ResetResult) GetRecovered() bool {
	if x != nil {
		return x.Recovered
	}
	return false
}

func (x *ResetResult) GetMessage() string {
	if x != nil {
		return x.Message
	}
	return ""
}

type SampleRequest struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// Time between samples; between 1 s and 10 min. Unset means 10 s.
	Interval      *durationpb.Duration `protobuf:"bytes,1,opt,name=interval,proto3" json:"interval,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *SampleRequest) Reset() {
	*x = SampleRequest{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[35]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *SampleRequest) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*SampleRequest) ProtoMessage() {}

func (x *SampleRequest) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[35]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use SampleRequest.ProtoReflect.Descriptor instead.
func (*SampleRequest) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{35}
}

func (x *SampleRequest) GetInterval() *durationpb.Duration {
	if x != nil {
		return x.Interval
	}
	return nil
}

type SampleResponse struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// When the values were read.
	Time *timestamppb.Timestamp `protobuf:"bytes,1,opt,name=time,proto3" json:"time,omitempty"`
	// At most 20,480.
	Metrics       []*Metric `protobuf:"bytes,2,rep,name=metrics,proto3" json:"metrics,omitempty"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *SampleResponse) Reset() {
	*x = SampleResponse{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[36]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *SampleResponse) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*SampleResponse) ProtoMessage() {}

func (x *SampleResponse) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[36]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use SampleResponse.ProtoReflect.Descriptor instead.
func (*SampleResponse) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{36}
}

func (x *SampleResponse) GetTime() *timestamppb.Timestamp {
	if x != nil {
		return x.Time
	}
	return nil
}

func (x *SampleResponse) GetMetrics() []*Metric {
	if x != nil {
		return x.Metrics
	}
	return nil
}

// Metric is one value of one device. One that breaks a rule is left out and
// reported; the others count.
type Metric struct {
	state protoimpl.MessageState `protogen:"open.v1"`
	// A device of the inventory, or one that a device of it names as its parent.
	DeviceId string `protobuf:"bytes,1,opt,name=device_id,json=deviceId,proto3" json:"device_id,omitempty"`
	// Prometheus style with the base unit last: temperature_celsius,
	// power_watts, memory_used_bytes, utilization_ratio; counters, and nothing
	// else, end in _total. Lower-case letters, digits and single underscores, a
	// letter first, at most 64; at most 512 names. Not healthy or fault_info,
	// which are the core's, and not ending in _bucket, _sum, _count or _created.
	Name string     `protobuf:"bytes,2,opt,name=name,proto3" json:"name,omitempty"`
	Kind MetricKind `protobuf:"varint,3,opt,name=kind,proto3,enum=accelmux.backend.v1.MetricKind" json:"kind,omitempty"`
	// Finite; not negative for a counter. A value that is not known is not sent.
	Value float64 `protobuf:"fixed64,4,opt,name=value,proto3" json:"value,omitempty"`
	// Further labels, such as the sensor; at most 8. Names are as those of metrics,
	// but not what the core or monitoring use: backend, device, resource,
	// namespace, pod, container, claim, node, service, endpoint, instance, job, le,
	// quantile. Values are at most 128 bytes of UTF-8 without control characters.
	// Each set of values is a time series, which monitoring stores. A backend may have
	// 1,024 series plus 256 for each device, and as many new ones within an hour; others
	// are left out.
	// No two metrics of a sample have the same device, name and labels.
	Labels        map[string]string `protobuf:"bytes,5,rep,name=labels,proto3" json:"labels,omitempty" protobuf_key:"bytes,1,opt,name=key" protobuf_val:"bytes,2,opt,name=value"`
	unknownFields protoimpl.UnknownFields
	sizeCache     protoimpl.SizeCache
}

func (x *Metric) Reset() {
	*x = Metric{}
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[37]
	ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
	ms.StoreMessageInfo(mi)
}

func (x *Metric) String() string {
	return protoimpl.X.MessageStringOf(x)
}

func (*Metric) ProtoMessage() {}

func (x *Metric) ProtoReflect() protoreflect.Message {
	mi := &file_accelmux_backend_v1_backend_proto_msgTypes[37]
	if x != nil {
		ms := protoimpl.X.MessageStateOf(protoimpl.Pointer(x))
		if ms.LoadMessageInfo() == nil {
			ms.StoreMessageInfo(mi)
		}
		return ms
	}
	return mi.MessageOf(x)
}

// Deprecated: Use Metric.ProtoReflect.Descriptor instead.
func (*Metric) Descriptor() ([]byte, []int) {
	return file_accelmux_backend_v1_backend_proto_rawDescGZIP(), []int{37}
}

func (x *Metric) GetDeviceId() string {
	if x != nil {
		return x.DeviceId
	}
	return ""
}

func (x *Metric) GetName() string {
	if x != nil {
		return x.Name
	}
	return ""
}

func (x *Metric) GetKind() MetricKind {
	if x != nil {
		return x.Kind
	}
	return MetricKind_METRIC_KIND_UNSPECIFIED
}

func (x *Metric) GetValue() float64 {
	if x != nil {
		return x.Value
	}
	return 0
}

func (x *Metric) GetLabels() map[string]string {
	if x != nil {
		return x.Labels
	}
	return nil
}

var File_accelmux_backend_v1_backend_proto protoreflect.FileDescriptor

const file_accelmux_backend_v1_backend_proto_rawDesc = "" +
	"\n" +
	"!accelmux/backend/v1/backend.proto\x12\x13accelmux.backend.v1\x1a\x1egoogle/protobuf/duration.proto\x1a\x1fgoogle/protobuf/timestamp.proto\"\x89\x01\n" +
	"\x10ConfigureRequest\x12#\n" +
	"\rsettings_json\x18\x01 \x01(\fR\fsettingsJson\x124\n" +
	"\x05paths\x18\x02 \x01(\v2\x1e.accelmux.backend.v1.HostPathsR\x05paths\x12\x1a\n" +
	"\brevision\x18\x03 \x01(\x04R\brevision\"O\n" +
	"\tHostPaths\x12\x14\n" +
	"\x05sysfs\x18\x01 \x01(\tR\x05sysfs\x12\x14\n" +
	"\x05devfs\x18\x02 \x01(\tR\x05devfs\x12\x16\n" +
	"\x06procfs\x18\x03 \x01(\tR\x06procfs\"z\n" +
	"\x11ConfigureResponse\x12\x12\n" +
	"\x04name\x18\x01 \x01(\tR\x04name\x12\x18\n" +
	"\aversion\x18\x02 \x01(\tR\aversion\x127\n" +
	"\x06errors\x18\x03 \x03(\v2\x1f.accelmux.backend.v1.FieldErrorR\x06errors\"<\n" +
	"\n" +
	"FieldError\x12\x14\n" +
	"\x05field\x18\x01 \x01(\tR\x05field\x12\x18\n" +
	"\amessage\x18\x02 \x01(\tR\amessage\"X\n" +
	"\fWatchRequest\x12H\n" +
	"\x12heartbeat_interval\x18\x01 \x01(\v2\x19.google.protobuf.DurationR\x11heartbeatInterval\"\x98\x01\n" +
	"\rWatchResponse\x12>\n" +
	"\tinventory\x18\x01 \x01(\v2\x1e.accelmux.backend.v1.InventoryH\x00R\tinventory\x12>\n" +
	"\theartbeat\x18\x02 \x01(\v2\x1e.accelmux.backend.v1.HeartbeatH\x00R\theartbeatB\a\n" +
	"\x05event\"\v\n" +
	"\tHeartbeat\"\xb0\x02\n" +
	"\tInventory\x12\x1e\n" +
	"\n" +
	"generation\x18\x01 \x01(\x04R\n" +
	"generation\x125\n" +
	"\adevices\x18\x02 \x03(\v2\x1b.accelmux.backend.v1.DeviceR\adevices\x12\x1a\n" +
	"\bproblems\x18\x03 \x03(\tR\bproblems\x12+\n" +
	"\x11settings_revision\x18\x04 \x01(\x04R\x10settingsRevision\x12B\n" +
	"\fcounter_sets\x18\x05 \x03(\v2\x1f.accelmux.backend.v1.CounterSetR\vcounterSets\x12?\n" +
	"\vnode_labels\x18\x06 \x03(\v2\x1e.accelmux.backend.v1.NodeLabelR\n" +
	"nodeLabels\"u\n" +
	"\tNodeLabel\x12\x12\n" +
	"\x04name\x18\x01 \x01(\tR\x04name\x12\x14\n" +
	"\x05value\x18\x02 \x01(\tR\x05value\x12\x1b\n" +
	"\tdevice_id\x18\x03 \x01(\tR\bdeviceId\x12!\n" +
	"\fshared_value\x18\x04 \x01(\tR\vsharedValue\"\xa8\x01\n" +
	"\n" +
	"CounterSet\x12\x12\n" +
	"\x04name\x18\x01 \x01(\tR\x04name\x12I\n" +
	"\bcounters\x18\x02 \x03(\v2-.accelmux.backend.v1.CounterSet.CountersEntryR\bcounters\x1a;\n" +
	"\rCountersEntry\x12\x10\n" +
	"\x03key\x18\x01 \x01(\tR\x03key\x12\x14\n" +
	"\x05value\x18\x02 \x01(\x03R\x05value:\x028\x01\"\xc5\x01\n" +
	"\x12CounterConsumption\x12\x1f\n" +
	"\vcounter_set\x18\x01 \x01(\tR\n" +
	"counterSet\x12Q\n" +
	"\bcounters\x18\x02 \x03(\v25.accelmux.backend.v1.CounterConsumption.CountersEntryR\bcounters\x1a;\n" +
	"\rCountersEntry\x12\x10\n" +
	"\x03key\x18\x01 \x01(\tR\x03key\x12\x14\n" +
	"\x05value\x18\x02 \x01(\x03R\x05value:\x028\x01\"\xa5\t\n" +
	"\x06Device\x12\x0e\n" +
	"\x02id\x18\x01 \x01(\tR\x02id\x12\x14\n" +
	"\x05class\x18\x02 \x01(\tR\x05class\x123\n" +
	"\x06health\x18\x03 \x01(\v2\x1b.accelmux.backend.v1.HealthR\x06health\x12\x1d\n" +
	"\n" +
	"numa_nodes\x18\x04 \x03(\rR\tnumaNodes\x12\x1c\n" +
	"\n" +
	"pci_bus_id\x18\x05 \x01(\tR\bpciBusId\x12K\n" +
	"\n" +
	"attributes\x18\x06 \x03(\v2+.accelmux.backend.v1.Device.AttributesEntryR\n" +
	"attributes\x12K\n" +
	"\n" +
	"capacities\x18\a \x03(\v2+.accelmux.backend.v1.Device.CapacitiesEntryR\n" +
	"capacities\x12/\n" +
	"\x05links\x18\b \x03(\v2\x19.accelmux.backend.v1.LinkR\x05links\x12\x1b\n" +
	"\tparent_id\x18\t \x01(\tR\bparentId\x12\x1f\n" +
	"\vreset_group\x18\n" +
	" \x01(\tR\n" +
	"resetGroup\x129\n" +
	"\x05edits\x18\v \x01(\v2#.accelmux.backend.v1.ContainerEditsR\x05edits\x12/\n" +
	"\x05hooks\x18\f \x03(\x0e2\x19.accelmux.backend.v1.HookR\x05hooks\x12!\n" +
	"\fprepared_for\x18\r \x01(\rR\vpreparedFor\x12\x1c\n" +
	"\tshareable\x18\x0e \x01(\bR\tshareable\x12[\n" +
	"\x10request_policies\x18\x0f \x03(\v20.accelmux.backend.v1.Device.RequestPoliciesEntryR\x0frequestPolicies\x12C\n" +
	"\bconsumes\x18\x10 \x03(\v2'.accelmux.backend.v1.CounterConsumptionR\bconsumes\x12\x1c\n" +
	"\tpotential\x18\x11 \x01(\bR\tpotential\x12\x19\n" +
	"\bmade_for\x18\x12 \x01(\tR\amadeFor\x12&\n" +
	"\x0fslow_to_prepare\x18\x13 \x01(\bR\rslowToPrepare\x12D\n" +
	"\vadmin_edits\x18\x14 \x01(\v2#.accelmux.backend.v1.ContainerEditsR\n" +
	"adminEdits\x1a]\n" +
	"\x0fAttributesEntry\x12\x10\n" +
	"\x03key\x18\x01 \x01(\tR\x03key\x124\n" +
	"\x05value\x18\x02 \x01(\v2\x1e.accelmux.backend.v1.AttributeR\x05value:\x028\x01\x1a=\n" +
	"\x0fCapacitiesEntry\x12\x10\n" +
	"\x03key\x18\x01 \x01(\tR\x03key\x12\x14\n" +
	"\x05value\x18\x02 \x01(\x03R\x05value:\x028\x01\x1af\n" +
	"\x14RequestPoliciesEntry\x12\x10\n" +
	"\x03key\x18\x01 \x01(\tR\x03key\x128\n" +
	"\x05value\x18\x02 \x01(\v2\".accelmux.backend.v1.RequestPolicyR\x05value:\x028\x01\"y\n" +
	"\rRequestPolicy\x12\x18\n" +
	"\adefault\x18\x01 \x01(\x03R\adefault\x12\x16\n" +
	"\x06values\x18\x02 \x03(\x03R\x06values\x126\n" +
	"\x05range\x18\x03 \x01(\v2 .accelmux.backend.v1.AmountRangeR\x05range\"E\n" +
	"\vAmountRange\x12\x10\n" +
	"\x03min\x18\x01 \x01(\x03R\x03min\x12\x10\n" +
	"\x03max\x18\x02 \x01(\x03R\x03max\x12\x12\n" +
	"\x04step\x18\x03 \x01(\x03R\x04step\"\x9e\x02\n" +
	"\x06Health\x126\n" +
	"\x05state\x18\x01 \x01(\x0e2 .accelmux.backend.v1.HealthStateR\x05state\x12\x12\n" +
	"\x04code\x18\x02 \x01(\tR\x04code\x12\x18\n" +
	"\amessage\x18\x03 \x01(\tR\amessage\x129\n" +
	"\brecovery\x18\x04 \x01(\x0e2\x1d.accelmux.backend.v1.RecoveryR\brecovery\x12\x1c\n" +
	"\trecovered\x18\x05 \x01(\bR\trecovered\x12#\n" +
	"\rcleared_codes\x18\x06 \x03(\tR\fclearedCodes\x120\n" +
	"\x05reach\x18\a \x01(\x0e2\x1a.accelmux.backend.v1.ReachR\x05reach\"\xa7\x03\n" +
	"\tAttribute\x12#\n" +
	"\fstring_value\x18\x01 \x01(\tH\x00R\vstringValue\x12\x1d\n" +
	"\tint_value\x18\x02 \x01(\x03H\x00R\bintValue\x12\x1f\n" +
	"\n" +
	"bool_value\x18\x03 \x01(\bH\x00R\tboolValue\x12%\n" +
	"\rversion_value\x18\x04 \x01(\tH\x00R\fversionValue\x12C\n" +
	"\rstring_values\x18\x05 \x01(\v2\x1c.accelmux.backend.v1.StringsH\x00R\fstringValues\x12:\n" +
	"\n" +
	"int_values\x18\x06 \x01(\v2\x19.accelmux.backend.v1.IntsH\x00R\tintValues\x12=\n" +
	"\vbool_values\x18\a \x01(\v2\x1a.accelmux.backend.v1.BoolsH\x00R\n" +
	"boolValues\x12E\n" +
	"\x0eversion_values\x18\b \x01(\v2\x1c.accelmux.backend.v1.StringsH\x00R\rversionValuesB\a\n" +
	"\x05value\"!\n" +
	"\aStrings\x12\x16\n" +
	"\x06values\x18\x01 \x03(\tR\x06values\"\x1e\n" +
	"\x04Ints\x12\x16\n" +
	"\x06values\x18\x01 \x03(\x03R\x06values\"\x1f\n" +
	"\x05Bools\x12\x16\n" +
	"\x06values\x18\x01 \x03(\bR\x06values\"\x84\x01\n" +
	"\x04Link\x12\x17\n" +
	"\apeer_id\x18\x01 \x01(\tR\x06peerId\x121\n" +
	"\x04kind\x18\x02 \x01(\x0e2\x1d.accelmux.backend.v1.LinkKindR\x04kind\x12\x14\n" +
	"\x05count\x18\x03 \x01(\rR\x05count\x12\x1a\n" +
	"\bdistance\x18\x04 \x01(\rR\bdistance\"\xbf\x04\n" +
	"\x0eContainerEdits\x12>\n" +
	"\x03env\x18\x01 \x03(\v2,.accelmux.backend.v1.ContainerEdits.EnvEntryR\x03env\x12B\n" +
	"\fdevice_nodes\x18\x02 \x03(\v2\x1f.accelmux.backend.v1.DeviceNodeR\vdeviceNodes\x122\n" +
	"\x06mounts\x18\x03 \x03(\v2\x1a.accelmux.backend.v1.MountR\x06mounts\x122\n" +
	"\x05hooks\x18\x04 \x03(\v2\x1c.accelmux.backend.v1.OciHookR\x05hooks\x12'\n" +
	"\x0fadditional_gids\x18\x05 \x03(\rR\x0eadditionalGids\x12]\n" +
	"\x0eenv_separators\x18\x06 \x03(\v26.accelmux.backend.v1.ContainerEdits.EnvSeparatorsEntryR\renvSeparators\x12?\n" +
	"\vnet_devices\x18\a \x03(\v2\x1e.accelmux.backend.v1.NetDeviceR\n" +
	"netDevices\x1a6\n" +
	"\bEnvEntry\x12\x10\n" +
	"\x03key\x18\x01 \x01(\tR\x03key\x12\x14\n" +
	"\x05value\x18\x02 \x01(\tR\x05value:\x028\x01\x1a@\n" +
	"\x12EnvSeparatorsEntry\x12\x10\n" +
	"\x03key\x18\x01 \x01(\tR\x03key\x12\x14\n" +
	"\x05value\x18\x02 \x01(\tR\x05value:\x028\x01\"<\n" +
	"\tNetDevice\x12\x1b\n" +
	"\thost_name\x18\x01 \x01(\tR\bhostName\x12\x12\n" +
	"\x04name\x18\x02 \x01(\tR\x04name\"_\n" +
	"\n" +
	"DeviceNode\x12\x12\n" +
	"\x04path\x18\x01 \x01(\tR\x04path\x12\x1b\n" +
	"\thost_path\x18\x02 \x01(\tR\bhostPath\x12 \n" +
	"\vpermissions\x18\x03 \x01(\tR\vpermissions\"\x9d\x01\n" +
	"\x05Mount\x12\x1b\n" +
	"\thost_path\x18\x01 \x01(\tR\bhostPath\x12%\n" +
	"\x0econtainer_path\x18\x02 \x01(\tR\rcontainerPath\x12\x1a\n" +
	"\bwritable\x18\x03 \x01(\bR\bwritable\x12\x18\n" +
	"\aoptions\x18\x04 \x03(\tR\aoptions\x12\x1a\n" +
	"\boptional\x18\x05 \x01(\bR\boptional\"`\n" +
	"\aOciHook\x12\x1b\n" +
	"\thook_name\x18\x01 \x01(\tR\bhookName\x12\x12\n" +
	"\x04path\x18\x02 \x01(\tR\x04path\x12\x12\n" +
	"\x04args\x18\x03 \x03(\tR\x04args\x12\x10\n" +
	"\x03env\x18\x04 \x03(\tR\x03env\"M\n" +
	"\x06Holder\x12\x0e\n" +
	"\x02id\x18\x01 \x01(\tR\x02id\x123\n" +
	"\x04kind\x18\x02 \x01(\x0e2\x1f.accelmux.backend.v1.HolderKindR\x04kind\"\xc4\x01\n" +
	"\n" +
	"HeldDevice\x12\x0e\n" +
	"\x02id\x18\x01 \x01(\tR\x02id\x12\x16\n" +
	"\x06shared\x18\x02 \x01(\bR\x06shared\x12O\n" +
	"\n" +
	"capacities\x18\x03 \x03(\v2/.accelmux.backend.v1.HeldDevice.CapacitiesEntryR\n" +
	"capacities\x1a=\n" +
	"\x0fCapacitiesEntry\x12\x10\n" +
	"\x03key\x18\x01 \x01(\tR\x03key\x12\x14\n" +
	"\x05value\x18\x02 \x01(\x03R\x05value:\x028\x01\"\xc5\x01\n" +
	"\x0ePrepareRequest\x123\n" +
	"\x06holder\x18\x01 \x01(\v2\x1b.accelmux.backend.v1.HolderR\x06holder\x129\n" +
	"\adevices\x18\x02 \x03(\v2\x1f.accelmux.backend.v1.HeldDeviceR\adevices\x12\x1a\n" +
	"\bresource\x18\x03 \x01(\tR\bresource\x12'\n" +
	"\x0fparameters_json\x18\x04 \x01(\fR\x0eparametersJson\"\xb7\x01\n" +
	"\x0fPrepareResponse\x12E\n" +
	"\x05edits\x18\x01 \x03(\v2/.accelmux.backend.v1.PrepareResponse.EditsEntryR\x05edits\x1a]\n" +
	"\n" +
	"EditsEntry\x12\x10\n" +
	"\x03key\x18\x01 \x01(\tR\x03key\x129\n" +
	"\x05value\x18\x02 \x01(\v2#.accelmux.backend.v1.ContainerEditsR\x05value:\x028\x01\"\x80\x01\n" +
	"\x0eReleaseRequest\x123\n" +
	"\x06holder\x18\x01 \x01(\v2\x1b.accelmux.backend.v1.HolderR\x06holder\x129\n" +
	"\adevices\x18\x02 \x03(\v2\x1f.accelmux.backend.v1.HeldDeviceR\adevices\"O\n" +
	"\x0fReleaseResponse\x12<\n" +
	"\aresults\x18\x01 \x03(\v2\".accelmux.backend.v1.ReleaseResultR\aresults\"b\n" +
	"\rReleaseResult\x12\x1b\n" +
	"\tdevice_id\x18\x01 \x01(\tR\bdeviceId\x12\x1a\n" +
	"\breleased\x18\x02 \x01(\bR\breleased\x12\x18\n" +
	"\amessage\x18\x03 \x01(\tR\amessage\"-\n" +
	"\fResetRequest\x12\x1d\n" +
	"\n" +
	"device_ids\x18\x01 \x03(\tR\tdeviceIds\"K\n" +
	"\rResetResponse\x12:\n" +
	"\aresults\x18\x01 \x03(\v2 .accelmux.backend.v1.ResetResultR\aresults\"b\n" +
	"\vResetResult\x12\x1b\n" +
	"\tdevice_id\x18\x01 \x01(\tR\bdeviceId\x12\x1c\n" +
	"\trecovered\x18\x02 \x01(\bR\trecovered\x12\x18\n" +
	"\amessage\x18\x03 \x01(\tR\amessage\"F\n" +
	"\rSampleRequest\x125\n" +
	"\binterval\x18\x01 \x01(\v2\x19.google.protobuf.DurationR\binterval\"w\n" +
	"\x0eSampleResponse\x12.\n" +
	"\x04time\x18\x01 \x01(\v2\x1a.google.protobuf.TimestampR\x04time\x125\n" +
	"\ametrics\x18\x02 \x03(\v2\x1b.accelmux.backend.v1.MetricR\ametrics\"\x80\x02\n" +
	"\x06Metric\x12\x1b\n" +
	"\tdevice_id\x18\x01 \x01(\tR\bdeviceId\x12\x12\n" +
	"\x04name\x18\x02 \x01(\tR\x04name\x123\n" +
	"\x04kind\x18\x03 \x01(\x0e2\x1f.accelmux.backend.v1.MetricKindR\x04kind\x12\x14\n" +
	"\x05value\x18\x04 \x01(\x01R\x05value\x12?\n" +
	"\x06labels\x18\x05 \x03(\v2'.accelmux.backend.v1.Metric.LabelsEntryR\x06labels\x1a9\n" +
	"\vLabelsEntry\x12\x10\n" +
	"\x03key\x18\x01 \x01(\tR\x03key\x12\x14\n" +
	"\x05value\x18\x02 \x01(\tR\x05value:\x028\x01*@\n" +
	"\x04Hook\x12\x14\n" +
	"\x10HOOK_UNSPECIFIED\x10\x00\x12\x10\n" +
	"\fHOOK_PREPARE\x10\x01\x12\x10\n" +
	"\fHOOK_RELEASE\x10\x02*Z\n" +
	"\x05Reach\x12\x15\n" +
	"\x11REACH_UNSPECIFIED\x10\x00\x12\x15\n" +
	"\x11REACH_NEW_HOLDERS\x10\x01\x12\x10\n" +
	"\fREACH_DEVICE\x10\x02\x12\x11\n" +
	"\rREACH_HOLDERS\x10\x03*{\n" +
	"\vHealthState\x12\x1c\n" +
	"\x18HEALTH_STATE_UNSPECIFIED\x10\x00\x12\x18\n" +
	"\x14HEALTH_STATE_HEALTHY\x10\x01\x12\x1a\n" +
	"\x16HEALTH_STATE_UNHEALTHY\x10\x02\x12\x18\n" +
	"\x14HEALTH_STATE_UNKNOWN\x10\x03*z\n" +
	"\bRecovery\x12\x18\n" +
	"\x14RECOVERY_UNSPECIFIED\x10\x00\x12\x11\n" +
	"\rRECOVERY_SELF\x10\x01\x12\x12\n" +
	"\x0eRECOVERY_RESET\x10\x02\x12\x13\n" +
	"\x0fRECOVERY_REBOOT\x10\x03\x12\x18\n" +
	"\x14RECOVERY_REPLACEMENT\x10\x04*\xc5\x02\n" +
	"\bLinkKind\x12\x19\n" +
	"\x15LINK_KIND_UNSPECIFIED\x10\x00\x12\x14\n" +
	"\x10LINK_KIND_NVLINK\x10\x01\x12\x16\n" +
	"\x12LINK_KIND_NVSWITCH\x10\x02\x12\x12\n" +
	"\x0eLINK_KIND_XGMI\x10\x03\x12\x19\n" +
	"\x15LINK_KIND_SAME_DEVICE\x10\x04\x12\x1d\n" +
	"\x19LINK_KIND_PCIE_SAME_BOARD\x10\x05\x12\x19\n" +
	"\x15LINK_KIND_PCIE_SWITCH\x10\x06\x12\x1f\n" +
	"\x1bLINK_KIND_PCIE_MULTI_SWITCH\x10\a\x12\x1e\n" +
	"\x1aLINK_KIND_PCIE_HOST_BRIDGE\x10\b\x12\x17\n" +
	"\x13LINK_KIND_SAME_NUMA\x10\t\x12\x18\n" +
	"\x14LINK_KIND_CROSS_NUMA\x10\n" +
	"\x12\x13\n" +
	"\x0fLINK_KIND_OTHER\x10\v*[\n" +
	"\n" +
	"HolderKind\x12\x1b\n" +
	"\x17HOLDER_KIND_UNSPECIFIED\x10\x00\x12\x19\n" +
	"\x15HOLDER_KIND_CONTAINER\x10\x01\x12\x15\n" +
	"\x11HOLDER_KIND_CLAIM\x10\x02*Y\n" +
	"\n" +
	"MetricKind\x12\x1b\n" +
	"\x17METRIC_KIND_UNSPECIFIED\x10\x00\x12\x15\n" +
	"\x11METRIC_KIND_GAUGE\x10\x01\x12\x17\n" +
	"\x13METRIC_KIND_COUNTER\x10\x022\x8f\x04\n" +
	"\x0eBackendService\x12Z\n" +
	"\tConfigure\x12%.accelmux.backend.v1.ConfigureRequest\x1a&.accelmux.backend.v1.ConfigureResponse\x12P\n" +
	"\x05Watch\x12!.accelmux.backend.v1.WatchRequest\x1a\".accelmux.backend.v1.WatchResponse0\x01\x12T\n" +
	"\aPrepare\x12#.accelmux.backend.v1.PrepareRequest\x1a$.accelmux.backend.v1.PrepareResponse\x12T\n" +
	"\aRelease\x12#.accelmux.backend.v1.ReleaseRequest\x1a$.accelmux.backend.v1.ReleaseResponse\x12N\n" +
	"\x05Reset\x12!.accelmux.backend.v1.ResetRequest\x1a\".accelmux.backend.v1.ResetResponse\x12S\n" +
	"\x06Sample\x12\".accelmux.backend.v1.SampleRequest\x1a#.accelmux.backend.v1.SampleResponse0\x01BBZ@github.com/accelmux/accelmux/proto/accelmux/backend/v1;backendv1b\x06proto3"

var (
	file_accelmux_backend_v1_backend_proto_rawDescOnce sync.Once
	file_accelmux_backend_v1_backend_proto_rawDescData []byte
)

func file_accelmux_backend_v1_backend_proto_rawDescGZIP() []byte {
	file_accelmux_backend_v1_backend_proto_rawDescOnce.Do(func() {
		file_accelmux_backend_v1_backend_proto_rawDescData = protoimpl.X.CompressGZIP(unsafe.Slice(unsafe.StringData(file_accelmux_backend_v1_backend_proto_rawDesc), len(file_accelmux_backend_v1_backend_proto_rawDesc)))
	})
	return file_accelmux_backend_v1_backend_proto_rawDescData
}

var file_accelmux_backend_v1_backend_proto_enumTypes = make([]protoimpl.EnumInfo, 7)
var file_accelmux_backend_v1_backend_proto_msgTypes = make([]protoimpl.MessageInfo, 48)
var file_accelmux_backend_v1_backend_proto_goTypes = []any{
	(Hook)(0),                     // 0: accelmux.backend.v1.Hook
	(Reach)(0),                    // 1: accelmux.backend.v1.Reach
	(HealthState)(0),              // 2: accelmux.backend.v1.HealthState
	(Recovery)(0),                 // 3: accelmux.backend.v1.Recovery
	(LinkKind)(0),                 // 4: accelmux.backend.v1.LinkKind
	(HolderKind)(0),               // 5: accelmux.backend.v1.HolderKind
	(MetricKind)(0),               // 6: accelmux.backend.v1.MetricKind
	(*ConfigureRequest)(nil),      // 7: accelmux.backend.v1.ConfigureRequest
	(*HostPaths)(nil),             // 8: accelmux.backend.v1.HostPaths
	(*ConfigureResponse)(nil),     // 9: accelmux.backend.v1.ConfigureResponse
	(*FieldError)(nil),            // 10: accelmux.backend.v1.FieldError
	(*WatchRequest)(nil),          // 11: accelmux.backend.v1.WatchRequest
	(*WatchResponse)(nil),         // 12: accelmux.backend.v1.WatchResponse
	(*Heartbeat)(nil),             // 13: accelmux.backend.v1.Heartbeat
	(*Inventory)(nil),             // 14: accelmux.backend.v1.Inventory
	(*NodeLabel)(nil),             // 15: accelmux.backend.v1.NodeLabel
	(*CounterSet)(nil),            // 16: accelmux.backend.v1.CounterSet
	(*CounterConsumption)(nil),    // 17: accelmux.backend.v1.CounterConsumption
	(*Device)(nil),                // 18: accelmux.backend.v1.Device
	(*RequestPolicy)(nil),         // 19: accelmux.backend.v1.RequestPolicy
	(*AmountRange)(nil),           // 20: accelmux.backend.v1.AmountRange
	(*Health)(nil),                // 21: accelmux.backend.v1.Health
	(*Attribute)(nil),             // 22: accelmux.backend.v1.Attribute
	(*Strings)(nil),               // 23: accelmux.backend.v1.Strings
	(*Ints)(nil),                  // 24: accelmux.backend.v1.Ints
	(*Bools)(nil),                 // 25: accelmux.backend.v1.Bools
	(*Link)(nil),                  // 26: accelmux.backend.v1.Link
	(*ContainerEdits)(nil),        // 27: accelmux.backend.v1.ContainerEdits
	(*NetDevice)(nil),             // 28: accelmux.backend.v1.NetDevice
	(*DeviceNode)(nil),            // 29: accelmux.backend.v1.DeviceNode
	(*Mount)(nil),                 // 30: accelmux.backend.v1.Mount
	(*OciHook)(nil),               // 31: accelmux.backend.v1.OciHook
	(*Holder)(nil),                // 32: accelmux.backend.v1.Holder
	(*HeldDevice)(nil),            // 33: accelmux.backend.v1.HeldDevice
	(*PrepareRequest)(nil),        // 34: accelmux.backend.v1.PrepareRequest
	(*PrepareResponse)(nil),       // 35: accelmux.backend.v1.PrepareResponse
	(*ReleaseRequest)(nil),        // 36: accelmux.backend.v1.ReleaseRequest
	(*ReleaseResponse)(nil),       // 37: accelmux.backend.v1.ReleaseResponse
	(*ReleaseResult)(nil),         // 38: accelmux.backend.v1.ReleaseResult
	(*ResetRequest)(nil),          // 39: accelmux.backend.v1.ResetRequest
	(*ResetResponse)(nil),         // 40: accelmux.backend.v1.ResetResponse
	(*ResetResult)(nil),           // 41: accelmux.backend.v1.ResetResult
	(*SampleRequest)(nil),         // 42: accelmux.backend.v1.SampleRequest
	(*SampleResponse)(nil),        // 43: accelmux.backend.v1.SampleResponse
	(*Metric)(nil),                // 44: accelmux.backend.v1.Metric
	nil,                           // 45: accelmux.backend.v1.CounterSet.CountersEntry
	nil,                           // 46: accelmux.backend.v1.CounterConsumption.CountersEntry
	nil,                           // 47: accelmux.backend.v1.Device.AttributesEntry
	nil,                           // 48: accelmux.backend.v1.Device.CapacitiesEntry
	nil,                           // 49: accelmux.backend.v1.Device.RequestPoliciesEntry
	nil,                           // 50: accelmux.backend.v1.ContainerEdits.EnvEntry
	nil,                           // 51: accelmux.backend.v1.ContainerEdits.EnvSeparatorsEntry
	nil,                           // 52: accelmux.backend.v1.HeldDevice.CapacitiesEntry
	nil,                           // 53: accelmux.backend.v1.PrepareResponse.EditsEntry
	nil,                           // 54: accelmux.backend.v1.Metric.LabelsEntry
	(*durationpb.Duration)(nil),   // 55: google.protobuf.Duration
	(*timestamppb.Timestamp)(nil), // 56: google.protobuf.Timestamp
}
var file_accelmux_backend_v1_backend_proto_depIdxs = []int32{
	8,  // 0: accelmux.backend.v1.ConfigureRequest.paths:type_name -> accelmux.backend.v1.HostPaths
	10, // 1: accelmux.backend.v1.ConfigureResponse.errors:type_name -> accelmux.backend.v1.FieldError
	55, // 2: accelmux.backend.v1.WatchRequest.heartbeat_interval:type_name -> google.protobuf.Duration
	14, // 3: accelmux.backend.v1.WatchResponse.inventory:type_name -> accelmux.backend.v1.Inventory
	13, // 4: accelmux.backend.v1.WatchResponse.heartbeat:type_name -> accelmux.backend.v1.Heartbeat
	18, // 5: accelmux.backend.v1.Inventory.devices:type_name -> accelmux.backend.v1.Device
	16, // 6: accelmux.backend.v1.Inventory.counter_sets:type_name -> accelmux.backend.v1.CounterSet
	15, // 7: accelmux.backend.v1.Inventory.node_labels:type_name -> accelmux.backend.v1.NodeLabel
	45, // 8: accelmux.backend.v1.CounterSet.counters:type_name -> accelmux.backend.v1.CounterSet.CountersEntry
	46, // 9: accelmux.backend.v1.CounterConsumption.counters:type_name -> accelmux.backend.v1.CounterConsumption.CountersEntry
	21, // 10: accelmux.backend.v1.Device.health:type_name -> accelmux.backend.v1.Health
	47, // 11: accelmux.backend.v1.Device.attributes:type_name -> accelmux.backend.v1.Device.AttributesEntry
	48, // 12: accelmux.backend.v1.Device.capacities:type_name -> accelmux.backend.v1.Device.CapacitiesEntry
	26, // 13: accelmux.backend.v1.Device.links:type_name -> accelmux.backend.v1.Link
	27, // 14: accelmux.backend.v1.Device.edits:type_name -> accelmux.backend.v1.ContainerEdits
	0,  // 15: accelmux.backend.v1.Device.hooks:type_name -> accelmux.backend.v1.Hook
	49, // 16: accelmux.backend.v1.Device.request_policies:type_name -> accelmux.backend.v1.Device.RequestPoliciesEntry
	17, // 17: accelmux.backend.v1.Device.consumes:type_name -> accelmux.backend.v1.CounterConsumption
	27, // 18: accelmux.backend.v1.Device.admin_edits:type_name -> accelmux.backend.v1.ContainerEdits
	20, // 19: accelmux.backend.v1.RequestPolicy.range:type_name -> accelmux.backend.v1.AmountRange
	2,  // 20: accelmux.backend.v1.Health.state:type_name -> accelmux.backend.v1.HealthState
	3,  // 21: accelmux.backend.v1.Health.recovery:type_name -> accelmux.backend.v1.Recovery
	1,  // 22: accelmux.backend.v1.Health.reach:type_name -> accelmux.backend.v1.Reach
	23, // 23: accelmux.backend.v1.Attribute.string_values:type_name -> accelmux.backend.v1.Strings
	24, // 24: accelmux.backend.v1.Attribute.int_values:type_name -> accelmux.backend.v1.Ints
	25, // 25: accelmux.backend.v1.Attribute.bool_values:type_name -> accelmux.backend.v1.Bools
	23, // 26: accelmux.backend.v1.Attribute.version_values:type_name -> accelmux.backend.v1.Strings
	4,  // 27: accelmux.backend.v1.Link.kind:type_name -> accelmux.backend.v1.LinkKind
	50, // 28: accelmux.backend.v1.ContainerEdits.env:type_name -> accelmux.backend.v1.ContainerEdits.EnvEntry
	29, // 29: accelmux.backend.v1.ContainerEdits.device_nodes:type_name -> accelmux.backend.v1.DeviceNode
	30, // 30: accelmux.backend.v1.ContainerEdits.mounts:type_name -> accelmux.backend.v1.Mount
	31, // 31: accelmux.backend.v1.ContainerEdits.hooks:type_name -> accelmux.backend.v1.OciHook
	51, // 32: accelmux.backend.v1.ContainerEdits.env_separators:type_name -> accelmux.backend.v1.ContainerEdits.EnvSeparatorsEntry
	28, // 33: accelmux.backend.v1.ContainerEdits.net_devices:type_name -> accelmux.backend.v1.NetDevice
	5,  // 34: accelmux.backend.v1.Holder.kind:type_name -> accelmux.backend.v1.HolderKind
	52, // 35: accelmux.backend.v1.HeldDevice.capacities:type_name -> accelmux.backend.v1.HeldDevice.CapacitiesEntry
	32, // 36: accelmux.backend.v1.PrepareRequest.holder:type_name -> accelmux.backend.v1.Holder
	33, // 37: accelmux.backend.v1.PrepareRequest.devices:type_name -> accelmux.backend.v1.HeldDevice
	53, // 38: accelmux.backend.v1.PrepareResponse.edits:type_name -> accelmux.backend.v1.PrepareResponse.EditsEntry
	32, // 39: accelmux.backend.v1.ReleaseRequest.holder:type_name -> accelmux.backend.v1.Holder
	33, // 40: accelmux.backend.v1.ReleaseRequest.devices:type_name -> accelmux.backend.v1.HeldDevice
	38, // 41: accelmux.backend.v1.ReleaseResponse.results:type_name -> accelmux.backend.v1.ReleaseResult
	41, // 42: accelmux.backend.v1.ResetResponse.results:type_name -> accelmux.backend.v1.ResetResult
	55, // 43: accelmux.backend.v1.SampleRequest.interval:type_name -> google.protobuf.Duration
	56, // 44: accelmux.backend.v1.SampleResponse.time:type_name -> google.protobuf.Timestamp
	44, // 45: accelmux.backend.v1.SampleResponse.metrics:type_name -> accelmux.backend.v1.Metric
	6,  // 46: accelmux.backend.v1.Metric.kind:type_name -> accelmux.backend.v1.MetricKind
	54, // 47: accelmux.backend.v1.Metric.labels:type_name -> accelmux.backend.v1.Metric.LabelsEntry
	22, // 48: accelmux.backend.v1.Device.AttributesEntry.value:type_name -> accelmux.backend.v1.Attribute
	19, // 49: accelmux.backend.v1.Device.RequestPoliciesEntry.value:type_name -> accelmux.backend.v1.RequestPolicy
	27, // 50: accelmux.backend.v1.PrepareResponse.EditsEntry.value:type_name -> accelmux.backend.v1.ContainerEdits
	7,  // 51: accelmux.backend.v1.BackendService.Configure:input_type -> accelmux.backend.v1.ConfigureRequest
	11, // 52: accelmux.backend.v1.BackendService.Watch:input_type -> accelmux.backend.v1.WatchRequest
	34, // 53: accelmux.backend.v1.BackendService.Prepare:input_type -> accelmux.backend.v1.PrepareRequest
	36, // 54: accelmux.backend.v1.BackendService.Release:input_type -> accelmux.backend.v1.ReleaseRequest
	39, // 55: accelmux.backend.v1.BackendService.Reset:input_type -> accelmux.backend.v1.ResetRequest
	42, // 56: accelmux.backend.v1.BackendService.Sample:input_type -> accelmux.backend.v1.SampleRequest
	9,  // 57: accelmux.backend.v1.BackendService.Configure:output_type -> accelmux.backend.v1.ConfigureResponse
	12, // 58: accelmux.backend.v1.BackendService.Watch:output_type -> accelmux.backend.v1.WatchResponse
	35, // 59: accelmux.backend.v1.BackendService.Prepare:output_type -> accelmux.backend.v1.PrepareResponse
	37, // 60: accelmux.backend.v1.BackendService.Release:output_type -> accelmux.backend.v1.ReleaseResponse
	40, // 61: accelmux.backend.v1.BackendService.Reset:output_type -> accelmux.backend.v1.ResetResponse
	43, // 62: accelmux.backend.v1.BackendService.Sample:output_type -> accelmux.backend.v1.SampleResponse
	57, // [57:63] is the sub-list for method output_type
	51, // [51:57] is the sub-list for method input_type
	51, // [51:51] is the sub-list for extension type_name
	51, // [51:51] is the sub-list for extension extendee
	0,  // [0:51] is the sub-list for field type_name
}

func init() { file_accelmux_backend_v1_backend_proto_init() }
func file_accelmux_backend_v1_backend_proto_init() {
	if File_accelmux_backend_v1_backend_proto != nil {
		return
	}
	file_accelmux_backend_v1_backend_proto_msgTypes[5].OneofWrappers = []any{
		(*WatchResponse_Inventory)(nil),
		(*WatchResponse_Heartbeat)(nil),
	}
	file_accelmux_backend_v1_backend_proto_msgTypes[15].OneofWrappers = []any{
		(*Attribute_StringValue)(nil),
		(*Attribute_IntValue)(nil),
		(*Attribute_BoolValue)(nil),
		(*Attribute_VersionValue)(nil),
		(*Attribute_StringValues)(nil),
		(*Attribute_IntValues)(nil),
		(*Attribute_BoolValues)(nil),
		(*Attribute_VersionValues)(nil),
	}
	type x struct{}
	out := protoimpl.TypeBuilder{
		File: protoimpl.DescBuilder{
			GoPackagePath: reflect.TypeOf(x{}).PkgPath(),
			RawDescriptor: unsafe.Slice(unsafe.StringData(file_accelmux_backend_v1_backend_proto_rawDesc), len(file_accelmux_backend_v1_backend_proto_rawDesc)),
			NumEnums:      7,
			NumMessages:   48,
			NumExtensions: 0,
			NumServices:   1,
		},
		GoTypes:           file_accelmux_backend_v1_backend_proto_goTypes,
		DependencyIndexes: file_accelmux_backend_v1_backend_proto_depIdxs,
		EnumInfos:         file_accelmux_backend_v1_backend_proto_enumTypes,
		MessageInfos:      file_accelmux_backend_v1_backend_proto_msgTypes,
	}.Build()
	File_accelmux_backend_v1_backend_proto = out.File
	file_accelmux_backend_v1_backend_proto_goTypes = nil
	file_accelmux_backend_v1_backend_proto_depIdxs = nil
}
