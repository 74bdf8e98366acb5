package driver_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
)

// GPUs of each generation are read completely.
func TestModels(t *testing.T) {
	for model, architecture := range map[string]string{"A100 80GB": "Ampere", "H100 80GB": "Hopper", "B200 180GB": "Blackwell"} {
		l := drivertest.New(model, 8)
		s := snapshot(t, open(t, l))
		if s.DriverVersion != "570.124.06" || s.CUDAVersion != "12.8" || len(s.GPUs) != 8 {
			t.Fatalf("driver %s, CUDA %s, %d GPUs", s.DriverVersion, s.CUDAVersion, len(s.GPUs))
		}
		sound(t, s)
		config := drivertest.Models[model]
		want := driver.GPU{
			Index: 3, UUID: l.GPUs[3].UUID, PCIBusID: "0000:40:00.0", Name: config.Name, Serial: "1653",
			Architecture: architecture, Brand: "Nvidia", AddressingMode: "HMM", ComputeMajor: config.CudaMajor, ComputeMinor: config.CudaMinor,
			Minor: 3, MemoryBytes: config.MemoryMB << 20, PowerLimitWatts: 700, MIGCapable: true,
			Condition: driver.Condition{ECCUncorrected: new(uint64(0)), RemapPending: new(false), RemapFailed: new(false), Overheated: new(false)},
		}
		if diff := cmp.Diff(want, s.GPUs[3]); diff != "" {
			t.Errorf("%s: %s", model, diff)
		}
	}
}

// An error of any function on any GPU affects no other GPU. The GPU keeps its identity, its MIG
// devices and its links, and recovers on its own.
func TestOneFailureCostsOneGPU(t *testing.T) {
	// Errors of the other functions are no errors of the GPU.
	read := []string{"", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetPciInfo", "nvmlDeviceGetUUID", "nvmlDeviceGetName",
		"nvmlDeviceGetMinorNumber", "nvmlDeviceGetSerial", "nvmlDeviceGetArchitecture", "nvmlDeviceGetBrand", "nvmlDeviceGetAddressingMode",
		"nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetPowerManagementLimit",
		"nvmlDeviceGetGpuFabricInfo", "nvmlDeviceGetFieldValues", "nvmlDeviceGetTotalEccErrors",
		"nvmlDeviceGetRemappedRows", "nvmlDeviceGetRetiredPagesPendingStatus", "nvmlDeviceGetMigMode",
		"nvmlDeviceGetCurrentClocksEventReasons"}
	codes := map[nvml.Return]error{nvml.ERROR_GPU_IS_LOST: driver.ErrLost, nvml.ERROR_UNKNOWN: driver.ErrFailed,
		nvml.ERROR_RESET_REQUIRED: driver.ErrReset, nvml.ERROR_TIMEOUT: driver.ErrFailed, 4711: driver.ErrFailed}
	l := drivertest.New("H100 80GB", 5)
	l.Switch(2)
	l.GPUs[2].SetMIG(true, &drivertest.Instance{UUID: "MIG-1", Profile: "1g.10gb"})
	d := open(t, l)
	before := snapshot(t, d)
	for _, function := range append(drivertest.Functions(), "") {
		for code, want := range codes {
			for _, victim := range []int{0, 2, 4} {
				l.Fail(victim, function, code)
				s := snapshot(t, d)
				g := s.GPUs[victim]
				if slices.Contains(read, function) {
					sound(t, s, victim)
					wantError(t, g.Err, want)
				}
				g.Err, g.Condition = nil, before.GPUs[victim].Condition
				if len(g.Instances) > 0 {
					g.Instances = before.GPUs[victim].Instances // they may have an error of their own
				}
				s.GPUs[victim] = g
				if diff := cmp.Diff(before, s); diff != "" {
					t.Errorf("%s of GPU %d fails with %d: %s", function, victim, code, diff)
				}
				if _, err := d.Telemetry(t.Context()); err != nil {
					t.Errorf("%s of GPU %d fails with %d: telemetry: %v", function, victim, code, err)
				}
				l.Fail(victim, function, nvml.SUCCESS)
				if diff := cmp.Diff(before, snapshot(t, d)); diff != "" {
					t.Errorf("after %s failed: %s", function, diff)
				}
			}
		}
	}
}

// A GPU that is lost from the start has an index, and nothing that was not read.
func TestLostFromTheStart(t *testing.T) {
	l := drivertest.New("A100 80GB", 4)
	l.Lose(1)
	s := snapshot(t, open(t, l))
	sound(t, s, 1)
	g := s.GPUs[1]
	g.Err = nil
	if diff := cmp.Diff(driver.GPU{Index: 1, Minor: -1}, g); diff != "" {
		t.Error(diff)
	}
}

// What a GPU or driver does not have is absent and no error, function by
// function; what the library lacks is never called (the library panics).
func TestAbsence(t *testing.T) {
	needed := map[string]bool{"nvmlInit_v2": true, "nvmlShutdown": true, "nvmlDeviceGetCount": true, "nvmlDeviceGetHandleByIndex": true,
		"nvmlDeviceGetUUID": true, "nvmlDeviceGetPciInfo": true, "nvmlDeviceGetMemoryInfo": true}
	for _, function := range drivertest.Functions() {
		if needed[function] {
			continue
		}
		for name, without := range map[string]func(l *drivertest.Library){
			"lacking":       func(l *drivertest.Library) { l.Lack(function) },
			"not supported": func(l *drivertest.Library) { l.Fail(0, function, nvml.ERROR_NOT_SUPPORTED) },
		} {
			synctest.Test(t, func(t *testing.T) {
				l := drivertest.New("H100 80GB", 2)
				l.GPUs[1].SetMIG(true, &drivertest.Instance{UUID: "MIG-1", Profile: "1g.10gb"})
				without(l)
				d := open(t, l)
				s := snapshot(t, d)
				sound(t, s)
				if all, err := d.Telemetry(t.Context()); err != nil || len(all) < 2 || all[0].Err != nil {
					t.Errorf("%s is %s: telemetry %v, %v", function, name, all, err)
				}
				if _, err := d.Processes(t.Context(), s.GPUs[0].UUID); err != nil {
					t.Errorf("%s is %s: %v", function, name, err)
				}
				if _, err := d.Listen(t.Context()); err != nil {
					wantError(t, err, driver.ErrNotSupported)
				}
			})
		}
	}
}

// A MIG device that does not report its instances has an error: it is not that of the instances 0.
func TestMIGDeviceWithoutInstances(t *testing.T) {
	for _, function := range []string{"nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId"} {
		l := drivertest.New("H100 80GB", 1)
		l.GPUs[0].SetMIG(true, &drivertest.Instance{UUID: "MIG-1", Profile: "1g.10gb"})
		l.Fail(0, function, nvml.ERROR_NOT_SUPPORTED)
		g := snapshot(t, open(t, l)).GPUs[0]
		if g.Err != nil || len(g.Instances) != 1 || g.Instances[0].Err == nil {
			t.Errorf("%s: %+v", function, g)
		}
	}
}

func TestConditionAndFabric(t *testing.T) {
	l := drivertest.New("B200 180GB", 2)
	l.GPUs[1].SetField(nvml.FI_DEV_GET_GPU_RECOVERY_ACTION, 4)
	l.GPUs[1].SetECC(7)
	l.GPUs[1].SetRemapped(true, true)
	l.GPUs[1].SetFabric(nvml.GpuFabricInfo{ClusterUuid: [16]uint8{0: 0xab, 15: 1}, CliqueId: 3, State: nvml.GPU_FABRIC_STATE_COMPLETED})
	s := snapshot(t, open(t, l))
	if diff := cmp.Diff(driver.Condition{Recovery: new(driver.RecoveryDrainAndReset), ECCUncorrected: new(uint64(7)),
		RemapPending: new(true), RemapFailed: new(true), Overheated: new(false)}, s.GPUs[1].Condition); diff != "" {
		t.Error(diff)
	}
	if s.GPUs[0].Condition.Recovery != nil || s.GPUs[0].Fabric != nil {
		t.Errorf("what is not supported is there: %+v", s.GPUs[0])
	}
	if diff := cmp.Diff(&driver.Fabric{ClusterUUID: "ab000000-0000-0000-0000-000000000001", Clique: 3, State: "completed"},
		s.GPUs[1].Fabric); diff != "" {
		t.Error(diff)
	}
}

// MIG devices are created and destroyed while the driver is open; an empty index or a
// device that fails affects nothing else.
func TestMIG(t *testing.T) {
	l := drivertest.New("H100 80GB", 2)
	d := open(t, l)
	instance := func(gi, ci int, profile string) *drivertest.Instance {
		return &drivertest.Instance{UUID: fmt.Sprintf("MIG-%d-%d", gi, ci), Profile: profile, GPUInstance: gi, ComputeInstance: ci,
			Attributes: nvml.DeviceAttributes{MemorySizeMB: 9856, GpuInstanceSliceCount: 1, ComputeInstanceSliceCount: 1, MultiprocessorCount: 16}}
	}
	l.GPUs[1].SetMIG(true, instance(9, 0, "1g.10gb+me"), nil, instance(2, 1, "1c.3g.40gb"), instance(2, 0, ""))
	s := snapshot(t, d)
	sound(t, s)
	g := s.GPUs[1]
	if !g.MIGEnabled || !g.MIGPending || len(g.Instances) != 3 || s.GPUs[0].MIGEnabled {
		t.Fatalf("%+v", g)
	}
	want := driver.Instance{UUID: "MIG-9-0", Profile: "1g.10gb+me", GPUInstance: 9, MemoryBytes: 9856 << 20, GPUSlices: 1,
		ComputeSlices: 1, Multiprocessors: 16, EnginesKnown: true}
	if diff := cmp.Diff(want, g.Instances[2]); diff != "" {
		t.Error(diff)
	}
	// Without a name from the driver, the profile is built from the sizes.
	if p := g.Instances[0].Profile; p != "1g.10gb" {
		t.Errorf("profile %q", p)
	}
	l.Fail(1, "nvmlDeviceGetAttributes", unknown)
	s = snapshot(t, d)
	sound(t, s)
	wantError(t, s.GPUs[1].Instances[1].Err, driver.ErrFailed)
	l.Fail(1, "nvmlDeviceGetAttributes", nvml.SUCCESS)
	// A GPU that is lost keeps its MIG devices.
	l.Lose(1)
	if s = snapshot(t, d); len(s.GPUs[1].Instances) != 3 || s.GPUs[1].Err == nil {
		t.Errorf("lost: %+v", s.GPUs[1])
	}
	l.Fail(1, "", nvml.SUCCESS)
	l.GPUs[1].SetMIG(false)
	if s = snapshot(t, d); s.GPUs[1].MIGEnabled || s.GPUs[1].Instances != nil {
		t.Errorf("MIG is off: %+v", s.GPUs[1])
	}
}

// Verifies that every profile of GPU instances that go-nvml knows, and one that it does not know, has a name of its own
// and the suffix of nvidia-smi.
func TestProfileNames(t *testing.T) {
	// The slices that each profile's name in nvml.h has. 1_SLICE_REV2 has twice the memory of the others (1g.20gb on an
	// H100 with 80 GB); all other profiles of one number of slices are of one size.
	slices := [nvml.GPU_INSTANCE_PROFILE_COUNT + 1]uint32{1, 2, 3, 4, 7, 8, 6, 1, 2, 1, 1, 2, 4, 1, 2, 1, 2, 3, 1}
	const gib10 = 9984 // MiB, of a slice of 80 GB
	l := drivertest.New("H100 80GB", 1)
	g := l.GPUs[0]
	g.SetMIG(true)
	g.GetGpuInstanceProfileInfoFunc = func(i int) (nvml.GpuInstanceProfileInfo, nvml.Return) {
		if i >= len(slices) {
			return nvml.GpuInstanceProfileInfo{}, nvml.ERROR_INVALID_ARGUMENT
		}
		info := nvml.GpuInstanceProfileInfo{Id: uint32(i), SliceCount: slices[i], MemorySizeMB: uint64(slices[i]) * gib10}
		if i == nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV2 {
			info.MemorySizeMB *= 2
		}
		return info, nvml.SUCCESS
	}
	g.GetGpuInstancePossiblePlacementsFunc = func(*nvml.GpuInstanceProfileInfo) ([]nvml.GpuInstancePlacement, nvml.Return) {
		return []nvml.GpuInstancePlacement{{Size: 1}}, nvml.SUCCESS
	}
	d := driver.New(driver.Options{Load: l.Load, Partitions: true})
	defer func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range snapshot(t, d).GPUs[0].Profiles {
		names = append(names, p.Name)
	}
	if diff := cmp.Diff([]string{
		"1g.10gb", "2g.20gb", "3g.30gb", "4g.40gb", "7g.70gb", "8g.80gb", "6g.60gb", "1g.10gb+me", "2g.20gb+me", "1g.20gb",
		"1g.10gb+gfx", "2g.20gb+gfx", "4g.40gb+gfx", "1g.10gb-me", "2g.20gb-me", "1g.10gb+me.all", "2g.20gb+me.all", "3g.30gb+gfx",
		"1g.10gb+nvml18",
	}, names); diff != "" {
		t.Error(diff)
	}
}

// A GPU whose driver hangs affects no other GPU, each further call on it uses no
// further thread, and it is read again once the call returns.
func TestHang(t *testing.T) {
	for _, function := range []string{"nvmlDeviceGetHandleByIndex", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetNvLinkState"} {
		synctest.Test(t, func(t *testing.T) {
			l := drivertest.New("H100 80GB", 8)
			d := open(t, l)
			release := l.Hang(5, function)
			start := time.Now()
			s := snapshot(t, d) // the links are read in the same call
			if took := time.Since(start); took != 3*time.Second {
				t.Errorf("%s: the first snapshot took %v", function, took)
			}
			for range 50 {
				start = time.Now()
				s = snapshot(t, d)
				if took := time.Since(start); took > time.Second {
					t.Fatalf("%s: a snapshot took %v", function, took)
				}
				if _, err := d.Telemetry(t.Context()); err != nil {
					t.Error(err)
				}
			}
			sound(t, s, 5)
			wantError(t, s.GPUs[5].Err, driver.ErrNoAnswer)
			if !strings.Contains(s.GPUs[5].Err.Error(), "since 2000-01-01T00:00:0") {
				t.Errorf("since when: %v", s.GPUs[5].Err)
			}
			synctest.Wait()
			if now := l.Busy(); now != 1 {
				t.Errorf("%s: %d calls hang", function, now)
			}
			release()
			synctest.Wait()
			sound(t, snapshot(t, d))
		})
	}
}

// While a call hangs the library stays initialized; once it returns it is shut down.
func TestCloseWhileACallHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := drivertest.New("H100 80GB", 2)
		d := open(t, l)
		release := l.Hang(1, "")
		snapshot(t, d)
		wantError(t, d.Close(t.Context()), driver.ErrNoAnswer)
		if l.Initialised() != 1 {
			t.Error("it was shut down under a call")
		}
		_, err := d.Snapshot(t.Context())
		wantError(t, err, driver.ErrClosed)
		// Opened again it works, still with one thread for the GPU.
		for range 3 {
			if err := d.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			sound(t, snapshot(t, d), 1)
			wantError(t, d.Close(t.Context()), driver.ErrNoAnswer)
		}
		if now := l.Busy(); now != 1 {
			t.Errorf("%d calls hang", now)
		}
		release()
		synctest.Wait()
	})
}

// The driver is unloaded and loaded again under an open connection.
func TestDriverReload(t *testing.T) {
	l := drivertest.New("H100 80GB", 2)
	d := open(t, l)
	before := snapshot(t, d)
	for range 3 {
		l.Unload()
		_, err := d.Snapshot(t.Context())
		wantError(t, err, driver.ErrDriverGone)
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
		wantError(t, d.Open(t.Context()), driver.ErrNoDriver)
		l.Reload()
		if err := d.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, snapshot(t, d)); diff != "" {
			t.Error(diff)
		}
	}
}

// The driver counts as unloaded if all GPUs report that, not if one does.
func TestGPUsSayThatTheDriverIsGone(t *testing.T) {
	l := drivertest.New("H100 80GB", 2)
	d := open(t, l)
	snapshot(t, d)
	l.Fail(0, "nvmlDeviceGetPciInfo", nvml.ERROR_DRIVER_NOT_LOADED)
	s := snapshot(t, d)
	sound(t, s, 0)
	wantError(t, s.GPUs[0].Err, driver.ErrNoDriver)
	if _, err := d.Telemetry(t.Context()); err != nil {
		t.Error(err)
	}
	l.Fail(0, "", nvml.ERROR_DRIVER_NOT_LOADED)
	l.Fail(1, "", nvml.ERROR_UNINITIALIZED)
	_, err := d.Snapshot(t.Context())
	wantError(t, err, driver.ErrDriverGone)
	_, err = d.Telemetry(t.Context())
	wantError(t, err, driver.ErrDriverGone)
}

// If procfs shows no module any more the driver counts as unloaded, whatever NVML returns.
func TestModuleInProcfs(t *testing.T) {
	proc := t.TempDir()
	file := filepath.Join(proc, "driver/nvidia/version")
	write := func(text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l := drivertest.New("H100 80GB", 1)
	d := driver.New(driver.Options{Load: l.Load, ProcFS: proc})
	try := func(want error) {
		t.Helper()
		_, err := d.Snapshot(t.Context())
		wantError(t, err, want)
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := d.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Open(t.Context()); err != nil { // procfs showed no module at the start, so it is not checked
		t.Fatal(err)
	}
	try(nil)
	write("570.1")
	try(nil)
	write("580.2")
	try(driver.ErrDriverGone)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	try(driver.ErrDriverGone)
	try(nil)
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
