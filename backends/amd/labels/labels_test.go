package labels

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/test/amdtree"
)

// labelsOf returns the labels of a machine.
func labelsOf(t *testing.T, m amdtree.Machine) map[string]string {
	t.Helper()
	tree := amdtree.New(t, m)
	inventory, err := gpu.Read(tree.Sysfs(), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, l := range Labels(Node{DriverVersion: inventory.DriverVersion, DriverSource: inventory.DriverSource, GPUs: inventory.GPUs}) {
		if wrong := append(validation.IsQualifiedName(l.GetName()), validation.IsValidLabelValue(l.GetValue())...); len(wrong) > 0 {
			t.Errorf("%s=%s: %v", l.GetName(), l.GetValue(), wrong)
		}
		got[l.GetName()] = l.GetValue()
	}
	return got
}

// want compares labels with lines name=value.
func want(t *testing.T, got map[string]string, lines string) {
	t.Helper()
	var have []string
	for _, name := range slices.Sorted(maps.Keys(got)) {
		have = append(have, name+"="+got[name])
	}
	if text := strings.Join(have, "\n"); text != strings.TrimSpace(lines) {
		t.Errorf("got\n%s", text)
	}
}

// Equal GPUs have the values as labels, and the counts under the labeller's first names.
func TestEqual(t *testing.T) {
	m := amdtree.NewMI210()
	m.GPUs = m.GPUs[:2]
	m.DriverSource = "533BB7E5866E52F63B9ACCB"
	for i := range m.GPUs {
		m.GPUs[i].Model.Firmware = map[string]uint32{"mec": 67, "sdma": 8, "vce": 0, "sos": 5}
	}
	want(t, labelsOf(t, m), `
amd.com/compute-partitioning-supported=false
amd.com/gpu.cu-count=104
amd.com/gpu.device-id=740f
amd.com/gpu.driver-src-version=533BB7E5866E52F63B9ACCB
amd.com/gpu.driver-version=6.8.5
amd.com/gpu.family=AI
amd.com/gpu.mode=container
amd.com/gpu.product-name=AMD_Instinct_MI210
amd.com/gpu.simd-count=416
amd.com/gpu.vram=64G
amd.com/memory-partitioning-supported=false
beta.amd.com/gpu.cu-count=104
beta.amd.com/gpu.cu-count.104=2
beta.amd.com/gpu.device-id=740f
beta.amd.com/gpu.device-id.740f=2
beta.amd.com/gpu.family=AI
beta.amd.com/gpu.family.AI=2
beta.amd.com/gpu.firmware.MEC.fw.67=2
beta.amd.com/gpu.firmware.SDMA0.fw.8=2
beta.amd.com/gpu.product-name=AMD_Instinct_MI210
beta.amd.com/gpu.product-name.AMD_Instinct_MI210=2
beta.amd.com/gpu.simd-count=416
beta.amd.com/gpu.simd-count.416=2
beta.amd.com/gpu.vram=64G
beta.amd.com/gpu.vram.64G=2`)
}

// Partitions count one by one, with the mode that all have.
func TestPartitions(t *testing.T) {
	m := amdtree.NewMI300X("CPX", "NPS4")
	m.GPUs = m.GPUs[:1]
	got := labelsOf(t, m)
	for name, value := range map[string]string{
		"amd.com/gpu.vram": "24G", "amd.com/gpu.cu-count": "38", "beta.amd.com/gpu.device-id.74a1": "8",
		"amd.com/compute-memory-partition": "cpx_nps4", "amd.com/compute-partitioning-supported": "true", "amd.com/memory-partitioning-supported": "true",
	} {
		if got[name] != value {
			t.Errorf("%s=%s, want %s", name, got[name], value)
		}
	}
}

// Where GPUs differ, there are counts in place of a value, and no mode.
func TestMixed(t *testing.T) {
	got := labelsOf(t, amdtree.NewMixed())
	for name, value := range map[string]string{
		"amd.com/gpu.device-id.740f": "1", "amd.com/gpu.device-id.74a1": "15", "amd.com/gpu.device-id": "", "beta.amd.com/gpu.device-id": "",
		"amd.com/compute-memory-partition": "", "amd.com/compute-partitioning-supported": "true", "amd.com/gpu.family": "AI",
	} {
		if got[name] != value {
			t.Errorf("%s=%q, want %q", name, got[name], value)
		}
	}
}

// A node without GPUs has no labels, and what is not known has none.
func TestUnknown(t *testing.T) {
	if l := Labels(Node{DriverVersion: "1"}); len(l) > 0 {
		t.Errorf("%v", l)
	}
	l := Labels(Node{GPUs: []gpu.GPU{{Product: "AMD Radeon (TM) / Pro™", Partitions: []gpu.Partition{{}}}}})
	if text := fmt.Sprint(l); strings.Contains(text, "vram") || strings.Contains(text, "driver") || strings.Contains(text, "family") || !strings.Contains(text, "AMD_Radeon_TM___Pro") {
		t.Errorf("%s", text)
	}
}

func TestFamily(t *testing.T) {
	for gfx, name := range map[string]string{
		"gfx803": "VI", "gfx801": "CZ", "gfx900": "AI", "gfx90c": "RV", "gfx942": "AI", "gfx1030": "NV", "gfx1035": "YC", "gfx1100": "GC_11_0_0",
		"gfx1103": "GC_11_0_1", "gfx1151": "GC_11_5_0", "gfx1201": "GC_12_0_0", "": "", "gfx2000": "",
	} {
		if got := family(1, gfx); got != name {
			t.Errorf("%s: %q, want %q", gfx, got, name)
		}
	}
	if family(mendocino, "gfx1036") != "GC_10_3_7" || family(0x164e, "gfx1036") != "GC_10_3_6" {
		t.Error("gfx1036")
	}
}
