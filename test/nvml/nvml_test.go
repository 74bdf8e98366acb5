package nvml

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// The library's structs have the layout that go-nvml has.
func TestSizes(t *testing.T) {
	// go-nvml keeps three to itself, with handles where these have pointers.
	sizes := map[string]uintptr{
		"PciInfo": unsafe.Sizeof(nvml.PciInfo{}), "PciInfoExt": unsafe.Sizeof(nvml.PciInfoExt{}),
		"Memory": unsafe.Sizeof(nvml.Memory{}), "Memory_v2": unsafe.Sizeof(nvml.Memory_v2{}),
		"Utilization": unsafe.Sizeof(nvml.Utilization{}), "Temperature": unsafe.Sizeof(nvml.Temperature{}),
		"MarginTemperature":           unsafe.Sizeof(nvml.MarginTemperature{}),
		"DeviceAddressingMode":        unsafe.Sizeof(nvml.DeviceAddressingMode{}),
		"RepairStatus":                unsafe.Sizeof(nvml.RepairStatus{}),
		"UnrepairableMemoryStatus_v1": unsafe.Sizeof(nvml.UnrepairableMemoryStatus_v1{}),
		"ProcessInfo":                 unsafe.Sizeof(nvml.ProcessInfo{}),
		"RowRemapperHistogramValues":  unsafe.Sizeof(nvml.RowRemapperHistogramValues{}),
		"RemappedRowsInfo_v2":         unsafe.Sizeof(nvml.RemappedRowsInfo_v2{}),
		"EccSramErrorStatus":          unsafe.Sizeof(nvml.EccSramErrorStatus{}),
		"FieldValue":                  unsafe.Sizeof(nvml.FieldValue{}),
		"DeviceAttributes":            unsafe.Sizeof(nvml.DeviceAttributes{}),
		"GpuInstancePlacement":        unsafe.Sizeof(nvml.GpuInstancePlacement{}),
		"GpuInstanceProfileInfo":      unsafe.Sizeof(nvml.GpuInstanceProfileInfo{}),
		"ComputeInstanceProfileInfo":  unsafe.Sizeof(nvml.ComputeInstanceProfileInfo{}),
		"GpuFabricInfo":               unsafe.Sizeof(nvml.GpuFabricInfo{}),
		"GpuFabricInfo_v2":            unsafe.Sizeof(nvml.GpuFabricInfo_v2{}),
		"GpuFabricInfo_v3":            unsafe.Sizeof(nvml.GpuFabricInfo_v3{}),
		"EventData": unsafe.Sizeof(struct {
			device         unsafe.Pointer
			kind, data     uint64
			gpuID, compute uint32
		}{}),
		"GpuInstanceInfo": unsafe.Sizeof(struct {
			device      unsafe.Pointer
			id, profile uint32
			placement   nvml.GpuInstancePlacement
		}{}),
		"ComputeInstanceInfo": unsafe.Sizeof(struct {
			device, instance unsafe.Pointer
			id, profile      uint32
			placement        nvml.ComputeInstancePlacement
		}{}),
	}
	said, err := exec.CommandContext(t.Context(), built(t, "sizes")).Output()
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

// A driver that comes late, goes away and comes back.
func TestInit(t *testing.T) {
	double, lib := start(t, 1)
	update(t, double, func(s State) { s.Driver().Fail("nvmlInit", "DRIVER_NOT_LOADED") })
	want(t, "Init without a driver", lib.Init(), nvml.ERROR_DRIVER_NOT_LOADED)
	update(t, double, func(s State) { s.Driver().Fail("nvmlInit", 18) })
	want(t, "Init with another driver", lib.Init(), nvml.ERROR_LIB_RM_VERSION_MISMATCH)
	update(t, double, func(s State) { s.Driver().Mend("nvmlInit") })
	want(t, "Init", lib.Init(), nvml.SUCCESS)
	version, ret := lib.SystemGetDriverVersion()
	same(t, "SystemGetDriverVersion", version, ret, "580.65.06")
	cuda, ret := lib.SystemGetCudaDriverVersion()
	same(t, "SystemGetCudaDriverVersion", cuda, ret, 13000)
	gpu := device(t, lib, 0)

	update(t, double, func(s State) { s.Driver().Fail(All, "UNINITIALIZED").Fail("nvmlInit", "DRIVER_NOT_LOADED") })
	_, ret = lib.DeviceGetCount()
	want(t, "DeviceGetCount, unloaded", ret, nvml.ERROR_UNINITIALIZED)
	_, ret = gpu.GetUUID()
	want(t, "GetUUID, unloaded", ret, nvml.ERROR_UNINITIALIZED)
	want(t, "Init, unloaded", lib.Init(), nvml.ERROR_DRIVER_NOT_LOADED)

	update(t, double, func(s State) {
		s.Driver().Mend(All).Mend("nvmlInit").Set("driver.generation", 2)
	})
	_, ret = lib.DeviceGetCount()
	want(t, "DeviceGetCount, another driver since Init", ret, nvml.ERROR_UNINITIALIZED)
	want(t, "Shutdown", lib.Shutdown(), nvml.SUCCESS)
	want(t, "Init again", lib.Init(), nvml.SUCCESS)
	count, ret := lib.DeviceGetCount()
	same(t, "DeviceGetCount", count, ret, 1)
	want(t, "Shutdown", lib.Shutdown(), nvml.SUCCESS)
}

// Init counts: the library is shut down with the last of as many Shutdowns.
func TestInitCounts(t *testing.T) {
	_, lib := initialised(t, 1)
	want(t, "second Init", lib.Init(), nvml.SUCCESS)
	want(t, "first Shutdown", lib.Shutdown(), nvml.SUCCESS)
	_, ret := lib.DeviceGetCount()
	want(t, "DeviceGetCount", ret, nvml.SUCCESS)
}

// Without a file there is no driver.
func TestNoFile(t *testing.T) {
	_, lib := start(t, 0)
	t.Setenv("ACCELMUX_NVML_FILE", t.TempDir()+"/none")
	want(t, "Init", lib.Init(), nvml.ERROR_DRIVER_NOT_LOADED)
}

func TestNoCompiler(t *testing.T) {
	t.Setenv("CC", "no-such-compiler")
	if _, err := Build(t.Context(), t.TempDir()); !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "C compiler") {
		t.Errorf("got %v", err)
	}
}

// The compiler has nothing to say. What does not fit into a buffer is cut on
// purpose.
func TestWarnings(t *testing.T) {
	files, err := filepath.Glob("library/*.c")
	if err != nil {
		t.Fatal(err)
	}
	strict := []string{"-Wall", "-Wextra", "-Werror", "-Wno-unknown-warning-option", "-Wno-format-truncation"}
	if err := compile(t.Context(), filepath.Join(t.TempDir(), "all"), append(strict, files...)...); err != nil {
		t.Error(err)
	}
}

// A program that knows nothing of the double finds it by its environment.
func TestEnv(t *testing.T) {
	double, _ := start(t, 2)
	program := exec.CommandContext(t.Context(), os.Args[0])
	program.Env = append(os.Environ(), append(double.Env(), "NVML_TEST_CHILD=1")...)
	said, err := program.CombinedOutput()
	if err != nil || strings.TrimSpace(string(said)) != "SUCCESS 2" {
		t.Errorf("got %q, %v", said, err)
	}
}

// Functions that are left out cannot be looked up, all others can.
func TestWithout(t *testing.T) {
	older, err := Build(t.Context(), t.TempDir(), "nvmlDeviceGetArchitecture", "nvmlDeviceGetMemoryInfo_v2")
	if err != nil {
		t.Fatal(err)
	}
	start(t, 0)
	lib := nvml.New(nvml.WithLibraryPath(older))
	want(t, "Init", lib.Init(), nvml.SUCCESS)
	t.Cleanup(func() { _ = lib.Shutdown() })
	for name, there := range map[string]bool{
		"nvmlDeviceGetArchitecture": false, "nvmlDeviceGetMemoryInfo_v2": false,
		"nvmlDeviceGetMemoryInfo": true, "nvmlEventSetWait_v2": true, "file_parse": false,
	} {
		if err := lib.Extensions().LookupSymbol(name); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Calls are logged with what they are about and what came of them.
func TestCalls(t *testing.T) {
	double, lib := initialised(t, 3)
	update(t, double, func(s State) { s.GPU(2).Fail("nvmlDeviceGetName", "GPU_IS_LOST") })
	for index := range 3 {
		_, _ = device(t, lib, index).GetName()
	}
	calls, err := double.Calls()
	if err != nil {
		t.Fatal(err)
	}
	if got := Count(calls, "nvmlDeviceGetName", ""); got != 3 {
		t.Errorf("%d calls of GetName", got)
	}
	if got := Count(calls, "", "gpu.1"); got != 2 {
		t.Errorf("%d calls about GPU 1", got)
	}
	last := calls[len(calls)-1]
	if age := time.Since(last.Time); age < 0 || age > time.Minute {
		t.Errorf("the last call was %v ago", age)
	}
	if last.Time = (time.Time{}); last != (Call{Function: "nvmlDeviceGetName", Device: "gpu.2", Outcome: "GPU_IS_LOST"}) {
		t.Errorf("last is %v", last)
	}
}

// A file that vanishes leaves the last one in force.
func TestFileVanishes(t *testing.T) {
	double, lib := initialised(t, 2)
	if err := os.Remove(double.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	count, ret := lib.DeviceGetCount()
	same(t, "DeviceGetCount", count, ret, 2)
}

// No version of the file is missed, however fast they come.
func TestFastUpdates(t *testing.T) {
	double, lib := initialised(t, 1)
	gpu := device(t, lib, 0)
	for n := range uint32(500) {
		for _, celsius := range []uint32{200, 100 + n%7} { // two, so that an inode may come back
			update(t, double, func(s State) { s.GPU(0).Set("temperature", celsius) })
		}
		temperature, ret := gpu.GetTemperature(nvml.TEMPERATURE_GPU)
		same(t, "GetTemperature", temperature, ret, 100+n%7)
	}
}

// A call hangs for its time, or until it no longer is to; others go on.
func TestHang(t *testing.T) {
	double, lib := initialised(t, 2)
	update(t, double, func(s State) {
		s.GPU(1).Hang("nvmlDeviceGetUUID", time.Hour)
		s.GPU(0).Hang("nvmlDeviceGetName", 30*time.Millisecond).Fail("nvmlDeviceGetName", "TIMEOUT")
	})
	one, other := device(t, lib, 0), device(t, lib, 1)
	started := time.Now()
	done := make(chan nvml.Return)
	go func() {
		_, ret := other.GetUUID()
		done <- ret
	}()
	await(t, double, func(calls []Call) bool {
		return slices.ContainsFunc(calls, func(c Call) bool {
			return c.Function == "nvmlDeviceGetUUID" && c.Device == "gpu.1" && c.Outcome == Hangs
		})
	})
	_, ret := other.GetName()
	want(t, "another call about the GPU", ret, nvml.SUCCESS)
	_, ret = one.GetUUID()
	want(t, "the call about another GPU", ret, nvml.SUCCESS)
	_, ret = one.GetName()
	want(t, "a call that hangs, then fails", ret, nvml.ERROR_TIMEOUT)
	if took := time.Since(started); took < 30*time.Millisecond {
		t.Errorf("it hung for %v only", took)
	}
	select {
	case ret := <-done:
		t.Errorf("the call came back with %v", ret)
	default:
	}
	update(t, double, func(s State) { s.GPU(1).Mend("nvmlDeviceGetUUID") })
	want(t, "the call that hung", <-done, nvml.SUCCESS)
	soon(t, started)
}
