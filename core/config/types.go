package config

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"
)

// The header that every configuration file starts with.
const (
	APIVersion = "accelmux.io/v1alpha1"
	Kind       = "NodeConfig"
)

// Modeline is the comment by which editors find the JSON schema, where packages install it: the first line of a file.
const Modeline = "# yaml-language-server: $schema=/usr/share/accelmux/nodeconfig.json"

// NodeConfig is a node's whole configuration. A loaded one is complete (every
// default is filled in), valid, and never changes.
type NodeConfig struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	// Profiles are the alternatives; exactly one applies at a time. At least one.
	Profiles []Profile `yaml:"profiles"`
}

// Profile is the backends to run and the resources to serve.
type Profile struct {
	// Name is a DNS label (RFC 1123), unique in the file. The one named
	// "default" applies if no other is chosen.
	Name string `yaml:"name"`
	// NodeSelector selects the nodes that the profile applies to, by their labels. Nil: the
	// nodes that no other profile matches. Package profile has the rules.
	NodeSelector *NodeSelector `yaml:"nodeSelector"`
	// Priority decides between profiles that match the same node: the highest
	// applies. Default 0; -1000000 to 1000000. It requires a nodeSelector.
	Priority int `yaml:"priority"`
	// IgnorePCI are accelerators that the profile does not use on purpose: they are not
	// reported as problems. An entry is a PCI vendor ("10de"), or a vendor and a device
	// ("10de:1eb8"), in four lower-case hexadecimal digits each, as lspci -n prints them. At
	// most 64.
	IgnorePCI []string `yaml:"ignorePCI"`
	// Backends run at the same time, each in a process of its own. At least one.
	Backends []Backend `yaml:"backends"`
	// Resources are tried in order; a device belongs to the first one that selects it.
	Resources []Resource `yaml:"resources"`
}

// Backend returns the backend with the name, or nil. p may be nil.
func (p *Profile) Backend(name string) *Backend {
	if p == nil {
		return nil
	}
	for i := range p.Backends {
		if p.Backends[i].Name == name {
			return &p.Backends[i]
		}
	}
	return nil
}

// NodeSelector is a label selector like metav1.LabelSelector, which can also match annotations:
// all requirements must match. An empty one matches every node.
type NodeSelector struct {
	// MatchLabels are labels that the node must have, with these values.
	MatchLabels map[string]string `yaml:"matchLabels"`
	// MatchAnnotations are annotations that the node must have, with these values, which have
	// the syntax of a label's value.
	MatchAnnotations map[string]string `yaml:"matchAnnotations"`
	// MatchExpressions are further requirements on labels.
	MatchExpressions []NodeRequirement `yaml:"matchExpressions"`
}

// NodeRequirement is a requirement on one label of the node.
type NodeRequirement struct {
	// Key is the label's key.
	Key      string       `yaml:"key"`
	Operator NodeOperator `yaml:"operator"`
	// Values are the operator's operands: at least one for NodeIn
	// and NodeNotIn, none for the others.
	Values []string `yaml:"values"`
}

// NodeOperator is how a label is compared.
type NodeOperator string

// The operators, those of metav1.LabelSelector.
const (
	// NodeIn requires the label, with one of the values.
	NodeIn NodeOperator = "In"
	// NodeNotIn refuses the values; a node without the label matches.
	NodeNotIn NodeOperator = "NotIn"
	// NodeExists requires the label, with any value.
	NodeExists NodeOperator = "Exists"
	// NodeDoesNotExist refuses the label.
	NodeDoesNotExist NodeOperator = "DoesNotExist"
)

// Backend is one backend process.
type Backend struct {
	// Name is a DNS label that starts with a letter (RFC 1035), unique in the
	// profile. It is part of CDI names and of logs, and the domain of the devices'
	// attributes in selectors; one program can run twice under two names.
	Name string `yaml:"name"`
	// Command is the program's file name in the backend directory; default
	// accelmux-backend-<name>. Never a path.
	Command string `yaml:"command"`
	// Checksum pins the program: "sha256:" and the 64 lower-case hex digits that sha256sum
	// prints for its file. A program with another checksum is not started. "" (default)
	// allows any.
	Checksum string `yaml:"checksum"`
	// ManifestChecksum pins the manifest of the program, with the schemas and presets that belong to it: what
	// "accelmux backends" prints. "" (default) allows any.
	ManifestChecksum string `yaml:"manifestChecksum"`
	// Env is added to the small environment that a backend gets. Names are as in shells;
	// ACCELMUX_BACKEND and PLUGIN_* are reserved for the core. Values are at
	// most 32 KiB.
	Env map[string]string `yaml:"env"`
	// Settings are passed to the backend, which checks them: any mapping. Default {}.
	Settings Settings `yaml:"settings"`
	// Heartbeat is the interval at which the backend's monitoring loop must send heartbeats;
	// three missed ones count as a hang. Default 10s; 100ms to 1m.
	Heartbeat Duration `yaml:"heartbeat"`
	// Holdover is how long the last inventory stays advertised after the backend has ended. Default 5m; 0s to 24h.
	Holdover Duration       `yaml:"holdover"`
	Recovery RecoveryPolicy `yaml:"recovery"`
	Allow    EditPolicy     `yaml:"allow"`
	Sandbox  Sandbox        `yaml:"sandbox"`
	// Features are the names of the devices' attributes and capacities that become
	// features of the node (package features), beside the counts; at most 16. A name that a
	// device does not have is ignored. Default DefaultFeatures. A list in the file replaces
	// it; an empty list leaves the counts only.
	Features []string `yaml:"features"`
	// FeaturePrefix is the prefix of the names of these features, before the slash: a DNS
	// subdomain of at most 100 characters that Node Feature Discovery accepts, and that no
	// other backend of the profile has. Default: the backend's name and
	// FeatureDomainSuffix.
	FeaturePrefix string `yaml:"featurePrefix"`
	// VendorLabels are the prefixes of labels under the vendor's own names, as the backend
	// reports them, that become features too; each as FeaturePrefix, and no other backend of
	// the profile has it. Default none; at most 8.
	VendorLabels []string        `yaml:"vendorLabels"`
	Telemetry    TelemetryPolicy `yaml:"telemetry"`
	DRA          DRA             `yaml:"dra"`
}

// TelemetryPolicy is when and how often the devices are measured.
type TelemetryPolicy struct {
	// Sample is SampleAuto (default) or SampleNever.
	Sample SampleMode `yaml:"sample"`
	// Interval is how often devices are measured while values are requested. Default 10s; 1s
	// to 10m.
	Interval Duration `yaml:"interval"`
}

// SampleMode is when devices are measured.
type SampleMode string

// The sample modes.
const (
	// SampleAuto measures while values are requested (package telemetry).
	SampleAuto SampleMode = "auto"
	// SampleNever never measures.
	SampleNever SampleMode = "never"
)

// RecoveryPolicy is how faulted devices become healthy again.
type RecoveryPolicy struct {
	// Delay is how long a device must be without fault before it is healthy again, so that an
	// unstable one does not flap in kubelet's list. Default 3s; 0s to 1h.
	Delay Duration `yaml:"delay"`
	// Reset is ResetAuto (default) or ResetNever.
	Reset ResetMode `yaml:"reset"`
}

// ResetMode is whether the core resets faulted devices on its own.
type ResetMode string

// The reset modes.
const (
	// ResetAuto resets a faulted device when a reset may help and no device of
	// its reset group is in use.
	ResetAuto ResetMode = "auto"
	// ResetNever never resets: an operator must.
	ResetNever ResetMode = "never"
)

// EditPolicy is what a backend's container edits may contain, and what its process may have: what its manifest has, if
// Declared is AcceptDeclared, and what the lists have. Anything else is refused (inventory.Policy), and so is what nobody
// gets (inventory.Never). Patterns of paths are absolute and in the syntax of path.Match; one that ends in "/**" matches
// everything below it.
type EditPolicy struct {
	// Declared is whether what the manifest has is accepted. Default AcceptDeclared for the programs of accelmux,
	// RefuseDeclared for others.
	Declared Acceptance `yaml:"declared"`
	// Devices are host paths of device nodes. Disks and other block devices are given by their exact paths alone.
	Devices []string `yaml:"devices"`
	// Mounts are host paths of mounts, read-only and writable.
	Mounts []string `yaml:"mounts"`
	// Hooks are paths of OCI hook programs. With "@sha256:" and the 64 lower-case hex digits that
	// sha256sum prints for the program, no other program at that path is allowed.
	Hooks []string `yaml:"hooks"`
	// Env are names of environment variables, of containers and of hooks; "*" at the end
	// matches all names with that prefix. Some names are always refused: PATH, LD_*.
	Env []string `yaml:"env"`
	// GIDs are additional group IDs, beside the owners of the device nodes; 1 to 2^32-2.
	GIDs []int `yaml:"gids"`
	// NetDevices are names of the host's network interfaces that containers may get, in the
	// syntax of path.Match. Always refused: lo.
	NetDevices []string `yaml:"netDevices"`
	// Process is what the backend's process itself may have.
	Process ProcessPolicy `yaml:"process"`
}

// AllowsNothing reports whether every edit is refused, whatever the manifest has.
func (p EditPolicy) AllowsNothing() bool {
	return p.Declared == RefuseDeclared && len(p.Devices)+len(p.Mounts)+len(p.Hooks)+len(p.Env)+len(p.GIDs)+len(p.NetDevices) == 0
}

// Acceptance is whether the configuration accepts what a backend's manifest has, for containers and for the process.
type Acceptance string

// The acceptances.
const (
	// AcceptDeclared accepts what the manifest has; the lists add to it.
	AcceptDeclared Acceptance = "accept"
	// RefuseDeclared accepts nothing but the lists.
	RefuseDeclared Acceptance = "refuse"
)

// Resource is a resource that pods request, and its devices.
type Resource struct {
	// Name is domain/name as Kubernetes requires it, unique in the profile. Domains
	// that end in kubernetes.io are reserved. After the slash it may have
	// placeholders, {attribute} or {accelmux.io/fact}: then there is one resource for each
	// name that the devices' values give (NameTemplate).
	Name string `yaml:"name"`
	// API is the API of Kubernetes that serves the resource. Default APIDevicePlugin. With
	// APIDRA the name is that of a DeviceClass's extendedResourceName, or only a name: it is
	// published as an attribute of the devices. Replicas, MaxReplicasPerContainer, Injection,
	// AnnotationPrefix, Registration, Allocation and Parameters are those of the device plugin
	// API: with APIDRA they are refused.
	API API `yaml:"api"`
	// Backend limits the resource to one backend of the profile; "" means all.
	Backend string `yaml:"backend"`
	// Class limits it to one device class, as backends name them; "" means all.
	Class string `yaml:"class"`
	// Selector is a CEL expression over device, the language of DRA's device
	// selectors and with its limits (CompileSelector); "" means all. Attributes
	// and capacities are in the domain of the backend's name:
	// device.attributes["mock"].model == "M1". Attributes from the core are in FactsDomain.
	// Package resource documents both.
	Selector string `yaml:"selector"`
	// Replicas is how many pods may share one device. Default 1; 1 to 1000.
	// With more than 1, device IDs get the suffix ::N.
	Replicas int `yaml:"replicas"`
	// MaxReplicasPerContainer limits the replicas of a shared resource that one container may
	// get. Default 1; 0 to 1000, 0 means no limit. It requires more than one replica, and is
	// nil, also after loading, for other resources.
	MaxReplicasPerContainer *int `yaml:"maxReplicasPerContainer"`
	// Injection is how a container gets its devices. Default InjectAuto.
	Injection Injection `yaml:"injection"`
	// AnnotationPrefix is the domain of the container annotations with CDI names, for runtimes
	// that read another one than DefaultAnnotationPrefix (NVIDIA's reads those of its setting
	// nvidia-container-runtime.modes.cdi.annotation-prefixes). A DNS subdomain of at most 100
	// characters. Another than the default requires InjectCDIAnnotations.
	AnnotationPrefix string `yaml:"annotationPrefix"`
	// Reset is when the devices are reset between holders. Default ResetDevicesNever.
	Reset ResourceReset `yaml:"reset"`
	// Registration is how the resource is registered with kubelet. Default RegisterSocket.
	Registration Registration `yaml:"registration"`
	// Allocation is how the devices for a container are chosen.
	Allocation Allocation `yaml:"allocation"`
	// Parameters are passed to the backend's Prepare before a container starts, by the names
	// that the backend defines; at most 32. The syntax of names is that of attributes. They
	// apply to devices with a Prepare hook.
	Parameters map[string]Parameter `yaml:"parameters"`
}

// Covers reports whether the resource selects every device that another one would, so that the other gets none if it
// comes later in a profile. It compares the fields, and does not look into expressions: false means that this is not
// known.
func (r *Resource) Covers(other *Resource) bool {
	return !strings.Contains(r.Name, "{") && cmp.Or(r.Backend, other.Backend) == other.Backend && cmp.Or(r.Class, other.Class) == other.Class &&
		cmp.Or(r.Selector, other.Selector) == other.Selector && (r.API == APIDRA || other.API != APIDRA) // which alone has devices that are made for claims
}

// ResourceReset is when the devices of a resource are reset between holders.
type ResourceReset string

// The times of resets.
const (
	// ResetDevicesNever resets no healthy device.
	ResetDevicesNever ResourceReset = "never"
	// ResetDevicesAfterUse resets a device when its last holder has ended. No other holder gets it before a
	// reset worked.
	ResetDevicesAfterUse ResourceReset = "afterUse"
)

// API is an API of Kubernetes that serves devices.
type API string

// The APIs.
const (
	// APIDevicePlugin is kubelet's device plugin API: a resource is a number of devices.
	APIDevicePlugin API = "devicePlugin"
	// APIDRA is dynamic resource allocation (resource.k8s.io/v1): ResourceSlices and claims.
	APIDRA API = "dra"
)

// Parameter is the sources of a parameter's value; at least one of the three is set. The first
// one that exists is used: Env, Annotation for the container, Annotation, Value. If it is
// empty, or none exists, the parameter is not sent to the backend. Values are at most
// MaxParameterValue bytes of UTF-8 without control characters.
type Parameter struct {
	// Value is the default.
	Value string `yaml:"value"`
	// Annotation is the key of an annotation of the pod. The key, a dot and a container's name
	// is an annotation for that container only, as far as the part after the slash stays
	// within 63 characters.
	Annotation string `yaml:"annotation"`
	// Env is an environment variable of the container, with a literal value in the pod.
	Env string `yaml:"env"`
}

// FromPod reports whether the value may come from the pod.
func (p Parameter) FromPod() bool { return p.Annotation != "" || p.Env != "" }

// MaxParameterValue bounds the value of a parameter, in bytes.
const MaxParameterValue = 253

// Injection is how a container gets its devices.
type Injection string

// The injections.
const (
	// InjectAuto is InjectCDI and InjectCDIAnnotations at once. It works with every kubelet
	// and every container runtime with CDI. A kubelet before 1.29 ignores the field, and
	// runtimes apply each name once (kubelet 1.28 to 1.32 itself sends every name in both
	// ways, https://kep.k8s.io/4009).
	InjectAuto Injection = "auto"
	// InjectCDI returns CDI names in the field cdi_devices (kubelet 1.29 and later).
	InjectCDI Injection = "cdi"
	// InjectCDIAnnotations returns CDI names in container annotations (cdi.k8s.io/...),
	// which every kubelet passes on.
	InjectCDIAnnotations Injection = "cdi-annotations"
	// InjectPlain returns device nodes, mounts and env, for container runtimes without CDI.
	InjectPlain Injection = "plain"
)

// Registration is how a resource is registered with kubelet.
type Registration string

// The registrations.
const (
	// RegisterSocket calls Register on device-plugins/kubelet.sock.
	RegisterSocket Registration = "socket"
	// RegisterWatcher leaves a socket in plugins_registry for kubelet to find.
	RegisterWatcher Registration = "watcher"
)

// Allocation is how the devices for a container are chosen among a resource's free ones;
// package topology has the details. With AllocateNone, Links is ignored.
type Allocation struct {
	// Policy is the aim of the choice. Default AllocateBestLinks.
	Policy AllocationPolicy `yaml:"policy"`
	// Links is the first measure of the links between the chosen devices. Default LinksSum.
	Links LinkMeasure `yaml:"links"`
}

// AllocationPolicy is the aim of the choice of devices.
type AllocationPolicy string

// The policies, as package topology names them.
const (
	// AllocateBestLinks prefers devices with fast links between them, and leaves such devices
	// for the next container.
	AllocateBestLinks AllocationPolicy = "best-links"
	// AllocateSpread prefers many physical devices with little use.
	AllocateSpread AllocationPolicy = "spread"
	// AllocatePack prefers few physical devices, first those already in use.
	AllocatePack AllocationPolicy = "pack"
	// AllocateNone leaves the choice to kubelet.
	AllocateNone AllocationPolicy = "none"
)

// LinkMeasure is how the links among several devices are compared.
type LinkMeasure string

// The measures. If one is equal, the other decides.
const (
	// LinksSum compares the sum of all links.
	LinksSum LinkMeasure = "sum"
	// LinksWeakest compares the weakest link, which limits communication in a ring.
	LinksWeakest LinkMeasure = "weakest"
)

// Duration is a time.Duration written as "10s" or "1m30s".
type Duration time.Duration

// Settings are a backend's settings as one JSON object with sorted keys: equal settings are
// equal bytes.
type Settings json.RawMessage
