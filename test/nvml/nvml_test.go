package nvml

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// The library's structs have the layout that go-nvml has.
func TestSizes(t *testing.T) {
	// go-nvml keeps one to itself, with a handle where this has a pointer.
	sizes := map[string]uintptr{
		"PciInfo": unsafe.Sizeof(nvml.PciInfo{}), "Memory": unsafe.Sizeof(nvml.Memory{}), "Utilization": unsafe.Sizeof(nvml.Utilization{}),
		"RepairStatus":                unsafe.Sizeof(nvml.RepairStatus{}),
		"UnrepairableMemoryStatus_v1": unsafe.Sizeof(nvml.UnrepairableMemoryStatus_v1{}),
		"ProcessInfo":                 unsafe.Sizeof(nvml.ProcessInfo{}),
		"EccSramErrorStatus":          unsafe.Sizeof(nvml.EccSramErrorStatus{}),
		"FieldValue":                  unsafe.Sizeof(nvml.FieldValue{}),
		"DeviceAddressingMode":        unsafe.Sizeof(nvml.DeviceAddressingMode{}),
		"DeviceAttributes":            unsafe.Sizeof(nvml.DeviceAttributes{}),
		"GpuInstancePlacement":        unsafe.Sizeof(nvml.GpuInstancePlacement{}),
		"GpuInstanceProfileInfo":      unsafe.Sizeof(nvml.GpuInstanceProfileInfo{}),
		"GpuInstanceInfo": unsafe.Sizeof(struct {
			device      unsafe.Pointer
			id, profile uint32
			placement   nvml.GpuInstancePlacement
		}{}),
		"ComputeInstanceProfileInfo": unsafe.Sizeof(nvml.ComputeInstanceProfileInfo{}),
		"GpuFabricInfo":              unsafe.Sizeof(nvml.GpuFabricInfo{}),
		"GpuFabricInfo_v2":           unsafe.Sizeof(nvml.GpuFabricInfo_v2{}),
		"GpuFabricInfo_v3":           unsafe.Sizeof(nvml.GpuFabricInfo_v3{}),
		"EventData": unsafe.Sizeof(struct {
			device         unsafe.Pointer
			kind, data     uint64
			gpuID, compute uint32
		}{}),
	}
	program := filepath.Join(t.TempDir(), "sizes")
	if err := compile(t.Context(), program, "library/sizes.c"); err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(t.Context(), program).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	if len(lines) != len(sizes) {
		t.Errorf("the library has %d structs, the test %d", len(lines), len(sizes))
	}
	for _, line := range lines {
		name, size, _ := strings.Cut(line, " ")
		if want := sizes[name]; size != strconv.Itoa(int(want)) {
			t.Errorf("%s has %s bytes, go-nvml's %d", name, size, want)
		}
	}
}
