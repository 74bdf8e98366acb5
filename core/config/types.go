package config

import (
	"encoding/json"
	"time"
)

// The header that every configuration file starts with.
const (
	APIVersion = "accelmux.io/v1alpha1"
	Kind       = "NodeConfig"
)

// NodeConfig is a node's whole configuration. A loaded one is complete (every
// default is filled in), valid, and never changes.
type NodeConfig struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	// Profiles are the alternatives; exactly one applies at a time. At least one.
	Profiles []Profile `yaml:"profiles"`
}

// Profile says which backends run and which resources they become.
type Profile struct {
	// Name is a DNS label (RFC 1123), unique in the file. The one named
	// "default" applies if no other is chosen.
	Name string `yaml:"name"`
	// NodeSelector selects the nodes on which the profile applies, by their labels. Nil:
	// those that no other profile is for. Package profile has the rules.
	NodeSelector *NodeSelector `yaml:"nodeSelector"`
	// Priority decides between profiles that match the same node: the highest
	// applies. Default 0; -1000000 to 1000000. It belongs to a nodeSelector.
	Priority int `yaml:"priority"`
	// IgnorePCI are accelerators that the profile leaves out on purpose, so that they are
	// not reported as problems: a PCI vendor ("10de"), or a vendor and a device
	// ("10de:1eb8"), in four lower-case hexadecimal digits each, as lspci -n prints them. At
	// most 64.
	IgnorePCI []string `yaml:"ignorePCI"`
	// Backends run side by side, each in a process of its own. At least one.
	Backends []Backend `yaml:"backends"`
	// Resources are tried in order; a device belongs to the first that selects
	// it, and to no other.
	Resources []Resource `yaml:"resources"`
}

// Backend returns the backend of that name, or nil; also of a nil profile.
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

// NodeSelector is a label selector as Kubernetes has it (metav1.LabelSelector):
// all of it must match. An empty one matches every node.
type NodeSelector struct {
	// MatchLabels are labels that the node must have, with these values.
	MatchLabels map[string]string `yaml:"matchLabels"`
	// MatchExpressions are further requirements.
	MatchExpressions []NodeRequirement `yaml:"matchExpressions"`
}

// NodeRequirement is what one label of the node must be.
type NodeRequirement struct {
	// Key is the label's.
	Key      string       `yaml:"key"`
	Operator NodeOperator `yaml:"operator"`
	// Values are those that the operator compares with: at least one for NodeIn
	// and NodeNotIn, none for the others.
	Values []string `yaml:"values"`
}

// NodeOperator is how a label is compared.
type NodeOperator string

// The operators, those of metav1.LabelSelector.
const (
	// NodeIn wants the label, with one of the values.
	NodeIn NodeOperator = "In"
	// NodeNotIn wants none of the values; a node without the label matches.
	NodeNotIn NodeOperator = "NotIn"
	// NodeExists wants the label, with any value.
	NodeExists NodeOperator = "Exists"
	// NodeDoesNotExist wants no such label.
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
	// Checksum pins the program: "sha256:" and the 64 lower-case hex digits that
	// sha256sum prints for its file. Another program is not started. "" (default)
	// pins nothing.
	Checksum string `yaml:"checksum"`
	// Env is added to the small environment that a backend gets. Names are those
	// that shells take; ACCELMUX_BACKEND and PLUGIN_* are the core's. Values are at
	// most 32 KiB.
	Env map[string]string `yaml:"env"`
	// Settings are the backend's own: any mapping. Default {}. The core checks
	// them against the schema that the backend describes.
	Settings Settings `yaml:"settings"`
	// Heartbeat is how often the backend must show that its loop turns;
	// three missed ones count as a hang. Default 10s; 100ms to 1m.
	Heartbeat Duration `yaml:"heartbeat"`
	// Holdover is how long the last inventory stays advertised when the backend
	// is gone. Default 5m; 0s to 24h.
	Holdover Duration       `yaml:"holdover"`
	Recovery RecoveryPolicy `yaml:"recovery"`
	Allow    EditPolicy     `yaml:"allow"`
	// Features are the names of the devices' attributes and capacities that become
	// features of the node (package features), beside the counts; at most 16. Those
	// that a device does not have are nothing. Default DefaultFeatures. A list that
	// is given replaces it; an empty one leaves the counts.
	Features []string `yaml:"features"`
	// FeaturePrefix is the prefix of the names of these features, before the slash: a DNS
	// subdomain of at most 100 characters that Node Feature Discovery accepts, and that no
	// other backend of the profile has. Default: the backend's name and
	// FeatureDomainSuffix.
	FeaturePrefix string          `yaml:"featurePrefix"`
	Telemetry     TelemetryPolicy `yaml:"telemetry"`
}

// TelemetryPolicy says how the devices are measured.
type TelemetryPolicy struct {
	// Sample is SampleAuto (default) or SampleNever.
	Sample SampleMode `yaml:"sample"`
	// Interval is how often, while somebody listens. Default 10s; 1s to 10m.
	Interval Duration `yaml:"interval"`
}

// SampleMode says when devices are measured.
type SampleMode string

// The sample modes.
const (
	// SampleAuto measures while somebody asks for the values (package
	// telemetry).
	SampleAuto SampleMode = "auto"
	// SampleNever never measures.
	SampleNever SampleMode = "never"
)

// RecoveryPolicy says how faulted devices come back.
type RecoveryPolicy struct {
	// Delay is how long a device must stay sound before it is healthy again, so
	// that a flapping one does not flap at kubelet. Default 3s; 0s to 1h.
	Delay Duration `yaml:"delay"`
	// Reset is ResetAuto (default) or ResetNever.
	Reset ResetMode `yaml:"reset"`
}

// ResetMode says whether the core resets faulted devices by itself.
type ResetMode string

// The reset modes.
const (
	// ResetAuto resets a faulted device when a reset may help and no device of
	// its reset group is in use.
	ResetAuto ResetMode = "auto"
	// ResetNever leaves resets to people.
	ResetNever ResetMode = "never"
)

// EditPolicy says what a backend's container edits may contain; all else is refused
// (inventory.Policy). The lists add to the presets. Patterns of paths are absolute and in
// the syntax of path.Match; one that ends in "/**" matches everything below it.
type EditPolicy struct {
	// Presets are names of presets, each with what a kind of backend needs. Default: that of
	// the backend's program, if there is one; an empty list is none.
	Presets []string `yaml:"presets"`
	// Devices are host paths of device nodes. Some nodes are always refused: block devices,
	// raw memory, disks.
	Devices []string `yaml:"devices"`
	// Mounts are host paths of mounts.
	Mounts []string `yaml:"mounts"`
	// Hooks are paths of OCI hook programs.
	Hooks []string `yaml:"hooks"`
	// Env are names of environment variables, of containers and of hooks; "*" at the end
	// matches all names with that prefix. Some names are always refused: PATH, LD_*.
	Env []string `yaml:"env"`
	// GIDs are additional groups, beside those that own the device nodes; 1 to 2^32-2.
	GIDs []int `yaml:"gids"`
}

// Resource is a name that pods ask for, and the devices behind it.
type Resource struct {
	// Name is domain/name as Kubernetes wants it, unique in the profile. Domains
	// that end in kubernetes.io are reserved. After the slash it may have
	// placeholders, {attribute} or {accelmux.io/fact}: then there is one resource for
	// each name that the devices make (NameTemplate).
	Name string `yaml:"name"`
	// Backend limits the resource to one backend of the profile; "" means all.
	Backend string `yaml:"backend"`
	// Class limits it to one device class, as backends name them; "" means all.
	Class string `yaml:"class"`
	// Selector is a CEL expression over device, the language of DRA's device
	// selectors and with its limits (CompileSelector); "" means all. Attributes
	// and capacities are in the domain of the backend's name:
	// device.attributes["mock"].model == "M1". What the core knows of every device
	// is in FactsDomain. Package resource documents both.
	Selector string `yaml:"selector"`
	// Replicas is how many pods may share one device. Default 1; 1 to 1000.
	// With more than 1, device IDs get the suffix ::N.
	Replicas int `yaml:"replicas"`
	// MaxReplicasPerContainer limits what one container may take of a shared
	// resource. Default 1; 0 to 1000, 0 means no limit. It belongs to a resource
	// with more than one replica and is nil, also after loading, for any other.
	MaxReplicasPerContainer *int `yaml:"maxReplicasPerContainer"`
	// Injection is how a container gets its devices. Default InjectAuto.
	Injection Injection `yaml:"injection"`
	// Registration is how kubelet learns of the resource. Default RegisterSocket.
	Registration Registration `yaml:"registration"`
	// Allocation says which of the free devices a container gets.
	Allocation Allocation `yaml:"allocation"`
	// Parameters are what a container asks of its devices before it starts, by the
	// names that the backend knows (its Prepare); at most 32. Names are as those of
	// attributes. They matter for devices that ask to be prepared.
	Parameters map[string]Parameter `yaml:"parameters"`
}

// Parameter says where the value of a parameter comes from; at least one of the
// three is there. The first counts that the container has: Env, Annotation for the
// container, Annotation, Value. If that is empty, or there is none, the backend is
// not told of the parameter. Values are at most MaxParameterValue bytes of UTF-8
// without control characters.
type Parameter struct {
	// Value is for containers that say nothing else.
	Value string `yaml:"value"`
	// Annotation is the key of an annotation of the pod. With a dot and a container's
	// name behind it, it is for that container only; a name with which the part after
	// the slash gets longer than 63 characters cannot be meant that way.
	Annotation string `yaml:"annotation"`
	// Env is a variable of the container, with a value that the pod itself has.
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
	// InjectAuto is InjectCDI and InjectCDIAnnotations at once: right for every kubelet
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

// Registration is how kubelet learns of a resource.
type Registration string

// The registrations.
const (
	// RegisterSocket calls Register on device-plugins/kubelet.sock.
	RegisterSocket Registration = "socket"
	// RegisterWatcher leaves a socket in plugins_registry for kubelet to find.
	RegisterWatcher Registration = "watcher"
)

// Allocation says which of a resource's free devices a container gets. Package
// topology has what that means in detail. With AllocateNone only Policy counts.
type Allocation struct {
	// Policy is what the choice is for. Default AllocateBestLinks.
	Policy AllocationPolicy `yaml:"policy"`
	// Links is what counts first of the links among the chosen devices. Default
	// LinksSum.
	Links LinkMeasure `yaml:"links"`
}

// AllocationPolicy is what the choice of devices is for.
type AllocationPolicy string

// The policies, by the names that package topology has for them.
const (
	// AllocateBestLinks wants devices that reach each other fast, and room for the
	// next container.
	AllocateBestLinks AllocationPolicy = "best-links"
	// AllocateSpread wants many physical devices, each with little on it.
	AllocateSpread AllocationPolicy = "spread"
	// AllocatePack wants few physical devices, those first that are in use already.
	AllocatePack AllocationPolicy = "pack"
	// AllocateNone leaves the choice to kubelet.
	AllocateNone AllocationPolicy = "none"
)

// LinkMeasure is how the links among several devices are compared.
type LinkMeasure string

// The measures. Where one is equal the other decides.
const (
	// LinksSum compares the sum of all links.
	LinksSum LinkMeasure = "sum"
	// LinksWeakest compares the weakest of them: right for what passes data on in a
	// ring.
	LinksWeakest LinkMeasure = "weakest"
)

// Duration is a time.Duration written as "10s" or "1m30s".
type Duration time.Duration

// Settings are a backend's own settings, kept as one JSON object with sorted
// keys. Equal settings are equal bytes.
type Settings json.RawMessage
