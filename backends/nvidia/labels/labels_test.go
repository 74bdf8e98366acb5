package labels

import (
	"encoding/binary"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/test/sysroot"
)

func h100(uuid string) GPU {
	return GPU{Class: class3D, GPU: driver.GPU{
		UUID: uuid, Name: "NVIDIA H100 80GB HBM3", Architecture: "Hopper", ComputeMajor: 9, MemoryBytes: 81559 << 20, MIGCapable: true,
		Fabric: &driver.Fabric{ClusterUUID: "3aa1ee0a-2c1f-4f5e-8a0f-9b4d6c0a7e11", Clique: 7, State: "completed"},
	}}
}

// migOf returns a GPU in MIG mode with MIG devices of these profiles.
func migOf(uuid string, profiles ...string) GPU {
	g := h100(uuid)
	g.MIGEnabled = true
	for i, profile := range profiles {
		g.Instances = append(g.Instances, driver.Instance{
			UUID: fmt.Sprint("MIG-", i), Profile: profile, MemoryBytes: 9984 << 20, GPUSlices: 1, ComputeSlices: 1, Multiprocessors: 16, CopyEngines: 1,
		})
	}
	return g
}

// machine makes a root of sysfs with the machine's name.
func machine(t *testing.T, name string) sysroot.Files {
	t.Helper()
	sysfs := sysroot.NewFiles(t)
	sysfs.File("class/dmi/id/product_name", name+"\n")
	return sysfs
}

// texts returns the labels without the prefix; the value of a shared device follows a slash.
func texts(t *testing.T, l *Labeler, n Node) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, label := range l.Labels(n) {
		name, ok := strings.CutPrefix(label.GetName(), prefix)
		if !ok || len(validation.IsQualifiedName(label.GetName())) > 0 {
			t.Errorf("%s is not a name of NVIDIA's", label.GetName())
		}
		for _, value := range []string{label.GetValue(), strings.ReplaceAll(label.GetSharedValue(), replicas, "1000")} {
			if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
				t.Errorf("%s=%s: %v", name, value, problems)
			}
		}
		out[name] = label.GetValue()
		if label.GetDeviceId() != "" {
			out[name] += "/" + label.GetSharedValue() + " " + label.GetDeviceId()
		}
	}
	return out
}

// The labels that GPU feature discovery v0.20 makes on a machine with H100.
var ofH100 = map[string]string{
	"gfd.timestamp":                "1700000000",
	"cuda.driver-version.full":     "580.65.06",
	"cuda.driver-version.major":    "580",
	"cuda.driver-version.minor":    "65",
	"cuda.driver-version.revision": "06",
	"cuda.driver.major":            "580",
	"cuda.driver.minor":            "65",
	"cuda.driver.rev":              "06",
	"cuda.runtime-version.full":    "13.0",
	"cuda.runtime-version.major":   "13",
	"cuda.runtime-version.minor":   "0",
	"cuda.runtime.major":           "13",
	"cuda.runtime.minor":           "0",
	"gpu.clique":                   "3aa1ee0a-2c1f-4f5e-8a0f-9b4d6c0a7e11.7",
	"gpu.compute.major":            "9",
	"gpu.compute.minor":            "0",
	"gpu.count":                    "2",
	"gpu.family":                   "hopper",
	"gpu.machine":                  "ProLiant-DL380-Gen11",
	"gpu.memory":                   "81559",
	"gpu.mode":                     "compute",
	"gpu.product":                  "NVIDIA-H100-80GB-HBM3/NVIDIA-H100-80GB-HBM3-SHARED GPU-a",
	"gpu.replicas":                 "1/{replicas} GPU-a",
	"gpu.sharing-strategy":         "none/time-slicing GPU-a",
	"mig.capable":                  "true",
	"mig.strategy":                 "mixed",
	"mps.capable":                  "false",
	"vgpu.present":                 "false",
}

func node(strategy string, gpus ...GPU) Node {
	return Node{DriverVersion: "580.65.06", CUDAVersion: "13.0", MIGStrategy: strategy, GPUs: gpus}
}

// Verifies all labels of a machine with H100.
func TestH100(t *testing.T) {
	l := New(Settings{}, machine(t, "ProLiant DL380 Gen11").Root, time.Unix(1700000000, 0))
	got := texts(t, l, node("mixed", h100("GPU-a"), h100("GPU-b")))
	if diff := cmp.Diff(ofH100, got); diff != "" || len(got) != 28 {
		t.Errorf("%d labels (-want +got):\n%s", len(got), diff)
	}
}

// Verifies labels that differ from those of a machine with H100.
func TestLabels(t *testing.T) {
	of := func(name, product, count string) map[string]string {
		return map[string]string{
			name + ".count": count, name + ".product": product, name + ".replicas": "1/{replicas} MIG-0", name + ".sharing-strategy": "none/time-slicing MIG-0",
			name + ".memory": "9984", name + ".multiprocessors": "16", name + ".slices.gi": "1", name + ".slices.ci": "1",
			name + ".engines.copy": "1", name + ".engines.decoder": "0", name + ".engines.encoder": "0", name + ".engines.jpeg": "0", name + ".engines.ofa": "0",
		}
	}
	with := func(all ...map[string]string) map[string]string {
		out := map[string]string{}
		for _, m := range all {
			maps.Copy(out, m)
		}
		return out
	}
	l40 := GPU{Class: classVGA, GPU: driver.GPU{UUID: "GPU-l", Name: "NVIDIA L40S", Architecture: "Ada Lovelace", ComputeMajor: 8, ComputeMinor: 9, MemoryBytes: 46068 << 20}}
	nameless := GPU{GPU: driver.GPU{UUID: "GPU-n"}}
	shared := h100("GPU-a")
	shared.MPS = true
	other := h100("GPU-b")
	other.Fabric.Clique = 8
	byMPS := node("none", shared)
	byMPS.MPS = true
	const mig = "NVIDIA-H100-80GB-HBM3-MIG-"
	for name, tc := range map[string]struct {
		settings Settings
		node     Node
		// want has "-" for labels that must not exist.
		want map[string]string
	}{
		"no strategy":          {node: node("none", h100("GPU-a")), want: map[string]string{"mig.strategy": "-", "gpu.count": "1"}},
		"settings":             {settings: Settings{NoTimestamp: true, PlainProduct: true}, node: node("none", h100("GPU-a")), want: map[string]string{"gfd.timestamp": "-", "gpu.product": "NVIDIA-H100-80GB-HBM3/NVIDIA-H100-80GB-HBM3 GPU-a"}},
		"Ada":                  {node: node("none", l40), want: map[string]string{"gpu.family": "ada-lovelace", "gpu.compute.minor": "9", "gpu.mode": "graphics", "mig.capable": "false", "gpu.clique": "-"}},
		"most of":              {node: node("none", l40, h100("GPU-a"), h100("GPU-b")), want: map[string]string{"gpu.product": ofH100["gpu.product"], "gpu.count": "2"}},
		"two cliques":          {node: node("none", h100("GPU-a"), other), want: map[string]string{"gpu.clique": "-"}},
		"MPS":                  {node: byMPS, want: map[string]string{"mps.capable": "true", "gpu.sharing-strategy": "none/mps GPU-a"}},
		"in MIG mode, whole":   {node: node("none", migOf("GPU-m")), want: map[string]string{"gpu.count": "1", "gpu.replicas": "0", "gpu.product": "NVIDIA-H100-80GB-HBM3", "gpu.memory": "81559"}},
		"nothing answers":      {node: node("none", nameless), want: map[string]string{"gpu.product": "-", "gpu.count": "-", "cuda.runtime.major": "13"}},
		"no versions":          {node: Node{GPUs: []GPU{l40}}, want: map[string]string{"cuda.driver.major": "-", "cuda.runtime.major": "-"}},
		"two parts":            {node: Node{DriverVersion: "580.65", GPUs: []GPU{l40}}, want: map[string]string{"cuda.driver.rev": "", "cuda.driver-version.full": "580.65"}},
		"mixed":                {node: node("mixed", h100("GPU-a"), migOf("GPU-m", "1g.10gb+me")), want: with(of("mig-1g.10gb.me", mig+"1g.10gbme/"+mig+"1g.10gbme-SHARED MIG-0", "1"), map[string]string{"gpu.count": "2", "gpu.product": ofH100["gpu.product"]})},
		"single":               {node: node("single", migOf("GPU-m", "1g.10gb", "1g.10gb")), want: of("gpu", mig+"1g.10gb/"+mig+"1g.10gb-SHARED MIG-0", "2")},
		"single without MIG":   {node: node("single", h100("GPU-a"), h100("GPU-b")), want: with(ofH100, map[string]string{"mig.strategy": "single", "gfd.timestamp": "1"})},
		"single, two profiles": {node: node("single", migOf("GPU-m", "1g.10gb", "3g.40gb")), want: map[string]string{"gpu.product": mig + "INVALID", "gpu.count": "0", "gpu.replicas": "0", "gpu.memory": "0"}},
		"single, one whole":    {node: node("single", migOf("GPU-m", "1g.10gb"), h100("GPU-a")), want: map[string]string{"gpu.product": mig + "INVALID"}},
		"single, one empty":    {node: node("single", migOf("GPU-m", "1g.10gb"), migOf("GPU-k")), want: map[string]string{"gpu.product": mig + "INVALID"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := texts(t, New(tc.settings, machine(t, "ProLiant DL380 Gen11").Root, time.Unix(1, 0)), tc.node)
			for label, want := range tc.want {
				if value, ok := got[label]; ok != (want != "-") || ok && value != want {
					t.Errorf("%s=%q (%v), want %q", label, value, ok, want)
				}
			}
		})
	}
}

// Verifies that a node without GPUs has no labels, and that invalid names are made valid.
func TestStrange(t *testing.T) {
	l := New(Settings{}, t.TempDir(), time.Unix(1, 0))
	if got := l.Labels(Node{DriverVersion: "580.65.06"}); got != nil {
		t.Errorf("%v without GPUs", got)
	}
	g := migOf("GPU-m", strings.Repeat("9g.", 30))
	g.Name = " (R) " + strings.Repeat("A100-", 20) + "\x00ä "
	got := texts(t, l, node("single", g))
	if got["gpu.machine"] != "unknown" || !strings.HasPrefix(got["gpu.product"], "R-A100-A100") {
		t.Errorf("%v", got)
	}
}

// capability returns NVIDIA's capability for a configuration space.
func capability(records ...byte) []byte {
	c := append([]byte{vendorSpecific, 0, 0, 'V', 'F'}, records...)
	c[2] = byte(len(c))
	return c
}

// config returns a configuration space with a power management capability, and another one.
func config(at byte, last []byte) []byte {
	c := make([]byte, configSize)
	binary.LittleEndian.PutUint16(c, vendorNVIDIA)
	c[statusOffset], c[listOffset] = statusList, 0x60
	c[0x60], c[0x61] = 1, at
	copy(c[at:], last)
	return c
}

// Verifies that the hypervisor's driver is read from a virtual GPU's configuration space, and
// that no content makes it panic.
func TestHostDriver(t *testing.T) {
	driver := append([]byte{hostRecord, 22}, "460.16\x00\x00\x00\x00r460_00\x00\x00\x00"...)
	for name, tc := range map[string]struct {
		config []byte
		want   *vgpu
	}{
		"virtual":        {config(0x68, capability(driver...)), &vgpu{"460.16", "r460_00"}},
		"second record":  {config(0x68, capability(append([]byte{3, 4, 0, 0}, driver...)...)), &vgpu{"460.16", "r460_00"}},
		"cut":            {config(0xf0, capability(driver...)), nil},
		"no length":      {config(0x68, capability(3, 0, 0, 0)), nil},
		"other":          {config(0x68, []byte{vendorSpecific, 0, 20, 1}), nil},
		"a circle":       {config(0x68, []byte{5, 0x60}), nil},
		"short":          {config(0x68, capability(driver...))[:64], nil},
		"no list":        {make([]byte, configSize), nil},
		"pointer to end": {config(0xff, []byte{vendorSpecific}), nil},
	} {
		if diff := cmp.Diff(tc.want, hostDriver(tc.config), cmp.AllowUnexported(vgpu{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	kvm := machine(t, "KVM")
	kvm.PCI(".", "0000:65:00.0", "", map[string]string{"vendor": "0x10de", "device": "0x1eb8", "class": "0x030200"})
	kvm.File("bus/pci/devices/0000:65:00.0/config", string(config(0x68, capability(driver...))))
	got := texts(t, New(Settings{}, kvm.Root, time.Unix(1, 0)), node("none", h100("GPU-a")))
	for label, want := range map[string]string{
		"vgpu.present": "true", "vgpu.host-driver-version": "460.16", "vgpu.host-driver-branch": "r460_00", "gpu.machine": "KVM",
	} {
		if got[label] != want {
			t.Errorf("%s=%q, want %q", label, got[label], want)
		}
	}
}
