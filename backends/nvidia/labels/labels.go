// Package labels makes the node labels of NVIDIA's GPU feature discovery (gpu-feature-discovery
// of k8s-device-plugin v0.20.0, internal/lm), with the same names and values, so that selectors
// and quotas written for those still match. README.md of the backend lists them and the
// differences.
//
// It reads only sysfs, once. The data of the GPUs comes from a [driver.Snapshot].
package labels

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

const (
	prefix = "nvidia.com/"
	// gpuResource begins the names of labels that describe the resource nvidia.com/gpu.
	gpuResource = "gpu"
	// replicas stands for how many containers share a device: see sdk.NodeLabel.
	replicas     = "{replicas}"
	sharedSuffix = "-SHARED"
)

// The PCI classes of GPUs with and without a display.
const (
	classVGA = 0x030000
	class3D  = 0x030200
)

// Settings change some labels. The zero value is the default of GPU feature discovery.
type Settings struct {
	// NoTimestamp leaves out gfd.timestamp, which changes at each start of the backend.
	NoTimestamp bool `json:"noTimestamp"`
	// PlainProduct leaves out the suffix -SHARED of the products of shared devices, as GPU
	// feature discovery does for resources that it renames.
	PlainProduct bool `json:"plainProduct"`
}

// Node is the data for the labels.
type Node struct {
	// DriverVersion is as NVIDIA writes it, CUDAVersion "13.0"; empty if unknown.
	DriverVersion, CUDAVersion string
	// MIGStrategy is none, single or mixed.
	MIGStrategy string
	// MPS reports whether the settings share GPUs by MPS.
	MPS bool
	// GPUs are in a stable order.
	GPUs []GPU
}

// GPU is a GPU of the node.
type GPU struct {
	driver.GPU
	// Class is the PCI class in 24 bits; 0 if unknown.
	Class uint32
	// MPS reports whether MPS shares the GPU.
	MPS bool
}

// Labeler makes labels. It does not change; several goroutines may use it.
type Labeler struct {
	settings Settings
	started  time.Time
	host     host
}

// New returns a labeler for the machine with this root of sysfs. started is the time for
// gfd.timestamp.
func New(s Settings, sysfs string, started time.Time) *Labeler {
	return &Labeler{settings: s, started: started, host: readHost(sysfs)}
}

// set has labels by name, without the prefix.
type set sdk.NodeLabels

func (s set) put(name string, value any) {
	s[name] = &sdk.NodeLabel{Name: prefix + name, Value: fmt.Sprint(value)}
}

// Labels returns the labels of the node, sorted by name; none if it has no GPUs.
func (l *Labeler) Labels(n Node) []*sdk.NodeLabel {
	if len(n.GPUs) == 0 {
		return nil
	}
	s := set{}
	l.node(s, n)
	versions(s, n)
	l.gpus(s, n.GPUs)
	switch n.MIGStrategy {
	case "single":
		s.put("mig.strategy", n.MIGStrategy)
		l.single(s, n.GPUs)
	case "mixed":
		s.put("mig.strategy", n.MIGStrategy)
		for profile, instances := range byProfile(n.GPUs) {
			l.instances(s, "mig-"+strings.ReplaceAll(profile, "+", "."), instances)
		}
	}
	return sdk.NodeLabels(s).Sorted()
}

// node adds labels of the node as a whole.
func (l *Labeler) node(s set, n Node) {
	if !l.settings.NoTimestamp {
		s.put("gfd.timestamp", l.started.Unix())
	}
	s.put("gpu.machine", cmp.Or(sanitize(l.host.machine), "unknown"))
	s.put("mig.capable", slices.ContainsFunc(n.GPUs, func(g GPU) bool { return g.MIGCapable }))
	s.put("mps.capable", n.MPS && !slices.ContainsFunc(n.GPUs, func(g GPU) bool { return g.MIGEnabled }))
	s.put("gpu.mode", mode(n.GPUs))
	if clique := clique(n.GPUs); clique != "" {
		s.put("gpu.clique", clique)
	}
	vgpu := l.host.vgpu
	s.put("vgpu.present", vgpu != nil)
	if vgpu != nil {
		s.put("vgpu.host-driver-version", sanitize(vgpu.version))
		s.put("vgpu.host-driver-branch", sanitize(vgpu.branch))
	}
}

// versions adds the versions of the driver and of CUDA, whole and by parts, and under the
// older names of the parts.
func versions(s set, n Node) {
	if parts := strings.SplitN(n.DriverVersion, ".", 3); len(parts) >= 2 {
		parts = append(parts, "") // the revision may be missing
		s.put("cuda.driver-version.full", n.DriverVersion)
		for i, names := range [][2]string{{"major", "major"}, {"minor", "minor"}, {"revision", "rev"}} {
			s.put("cuda.driver-version."+names[0], parts[i])
			s.put("cuda.driver."+names[1], parts[i])
		}
	}
	if major, minor, ok := strings.Cut(n.CUDAVersion, "."); ok {
		s.put("cuda.runtime-version.full", n.CUDAVersion)
		for name, value := range map[string]string{"major": major, "minor": minor} {
			s.put("cuda.runtime-version."+name, value)
			s.put("cuda.runtime."+name, value)
		}
	}
}

// gpus adds labels of the whole GPUs of one model. It prefers a model with GPUs that are not in
// MIG mode, then the most frequent model.
func (l *Labeler) gpus(s set, gpus []GPU) {
	counts := map[string]int{}
	for _, g := range gpus {
		counts[g.Name]++
	}
	var first *GPU
	for i, g := range gpus {
		better := first == nil || first.MIGEnabled && !g.MIGEnabled ||
			first.MIGEnabled == g.MIGEnabled && counts[g.Name] > counts[first.Name]
		if g.Name != "" && better {
			first = &gpus[i]
		}
	}
	if first == nil {
		return // no GPU has answered yet
	}
	device := first.UUID
	if first.MIGEnabled {
		device = "" // not shared as a whole
	}
	l.resource(s, gpuResource, counts[first.Name], device, first.MPS, sanitize(first.Name))
	if first.MIGEnabled {
		s.put("gpu.replicas", 0)
	}
	if mib := first.MemoryBytes >> 20; mib > 0 {
		s.put("gpu.memory", mib)
	}
	if first.ComputeMajor > 0 {
		s.put("gpu.family", family(first.Architecture))
		s.put("gpu.compute.major", first.ComputeMajor)
		s.put("gpu.compute.minor", first.ComputeMinor)
	}
}

// resource adds the labels of every resource. device is the ID of one of its devices, by which
// the core finds how many containers share each; "" if they are not shared.
func (l *Labeler) resource(s set, name string, count int, device string, mps bool, product string) {
	shared := func(label, value, ifShared string) {
		s.put(name+"."+label, value)
		if device != "" {
			s[name+"."+label].DeviceId, s[name+"."+label].SharedValue = device, ifShared
		}
	}
	strategy, suffix := "time-slicing", sharedSuffix
	if mps {
		strategy = "mps"
	}
	if l.settings.PlainProduct {
		suffix = ""
	}
	s.put(name+".count", count)
	shared("product", product, product+suffix)
	shared("replicas", "1", replicas)
	shared("sharing-strategy", "none", strategy)
}

// instance is a MIG device and its GPU.
type instance struct {
	driver.Instance
	gpu GPU
}

func byProfile(gpus []GPU) map[string][]instance {
	all := map[string][]instance{}
	for _, g := range gpus {
		if !g.MIGEnabled {
			continue
		}
		for _, i := range g.Instances {
			if i.Profile != "" {
				all[i.Profile] = append(all[i.Profile], instance{i, g})
			}
		}
	}
	return all
}

// single adds labels of MIG devices that are listed as nvidia.com/gpu. If no GPU is in MIG mode,
// the labels of the whole GPUs remain.
func (l *Labeler) single(s set, gpus []GPU) {
	empty := func(g GPU) bool { return !g.MIGEnabled || len(g.Instances) == 0 }
	first := slices.IndexFunc(gpus, func(g GPU) bool { return g.MIGEnabled })
	if first < 0 {
		return
	}
	profiles := byProfile(gpus)
	if len(profiles) != 1 || slices.ContainsFunc(gpus, empty) {
		l.resource(s, gpuResource, 0, "", false, sanitize(gpus[first].Name+"-MIG-INVALID"))
		s.put("gpu.replicas", 0)
		s.put("gpu.memory", 0)
		return
	}
	for _, instances := range profiles {
		l.instances(s, gpuResource, instances)
	}
}

// instances adds labels of MIG devices of one profile.
func (l *Labeler) instances(s set, name string, all []instance) {
	i := all[0]
	l.resource(s, name, len(all), i.UUID, false, sanitize(i.gpu.Name+"-MIG-"+i.Profile))
	for label, value := range map[string]uint64{
		"memory": i.MemoryBytes >> 20, "multiprocessors": uint64(i.Multiprocessors),
		"slices.gi": uint64(i.GPUSlices), "slices.ci": uint64(i.ComputeSlices),
		"engines.copy": uint64(i.CopyEngines), "engines.decoder": uint64(i.Decoders), "engines.encoder": uint64(i.Encoders),
		"engines.jpeg": uint64(i.JPEGEngines), "engines.ofa": uint64(i.OFAEngines),
	} {
		s.put(name+"."+label, value)
	}
}

// mode returns that of the first GPU, as GPU feature discovery does.
func mode(gpus []GPU) string {
	switch gpus[0].Class {
	case classVGA:
		return "graphics"
	case class3D:
		return "compute"
	}
	return "unknown"
}

// clique returns the clique of the GPUs; "" if they are not all in the same one.
func clique(gpus []GPU) string {
	one := ""
	for _, g := range gpus {
		if f := g.Fabric; f.Joined() && f.ClusterUUID != "" {
			place := f.ClusterUUID + "." + strconv.FormatUint(uint64(f.Clique), 10)
			if one != "" && one != place {
				return ""
			}
			one = place
		}
	}
	return one
}

// family returns GPU feature discovery's name of an architecture.
func family(architecture string) string {
	return cmp.Or(strings.ReplaceAll(strings.ToLower(architecture), " ", "-"), "undefined")
}

var unusual = regexp.MustCompile(`[^A-Za-z0-9_. -]`)

// sanitize makes a text the value of a label, as GPU feature discovery does: it removes
// characters that a label cannot have, and replaces spaces by dashes. It also cuts the text,
// leaving room for the suffix of shared devices.
func sanitize(text string) string {
	text = strings.Join(strings.Fields(unusual.ReplaceAllString(text, "")), "-")
	return sdk.LabelValue(text, sdk.MaxLabelValue-len(sharedSuffix))
}
