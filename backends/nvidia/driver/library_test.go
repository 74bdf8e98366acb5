package driver_test

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

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
	"github.com/accelmux/accelmux/test/nvml"
)

const (
	inChild  = "ACCELMUX_TEST_NVML_DIR"
	finished = "all steps were taken"
)

// alone runs the rest of a test in a process of its own, since a library stays
// loaded. The double's library belongs at root/usr/lib64. In that process alone returns
// the double and its root, elsewhere nil.
func alone(t *testing.T) (double *nvml.Double, root string) {
	t.Helper()
	dir, child := os.Getenv(inChild), true
	if dir == "" {
		dir, child = t.TempDir(), false
	}
	root = filepath.Join(dir, "root")
	if err := os.MkdirAll(filepath.Join(root, "usr/lib64"), 0o755); err != nil {
		t.Fatal(err)
	}
	double, err := nvml.New(filepath.Join(root, "usr/lib64", nvml.LibraryName), dir)
	if err != nil {
		t.Fatal(err)
	}
	if child {
		return double, root
	}
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=2m")
	command.Env = append(append(os.Environ(), double.Env()...), inChild+"="+dir)
	out, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(out), finished) {
		t.Fatalf("%v\n%s", err, out)
	}
	return nil, ""
}

func update(t *testing.T, double *nvml.Double, change func(nvml.State)) {
	t.Helper()
	if err := double.Update(change); err != nil {
		t.Fatal(err)
	}
}

func build(t *testing.T, double *nvml.Double, without ...string) {
	t.Helper()
	// A package manager makes a new file and does not overwrite the old one.
	if err := os.Remove(double.Library()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if _, err := nvml.Build(t.Context(), filepath.Dir(double.Library()), without...); err != nil {
		t.Fatal(err)
	}
}

// The real loader: no library, no driver, then a driver is loaded, unloaded, loaded again.
func TestLibraryComesAndGoes(t *testing.T) {
	double, root := alone(t)
	if double == nil {
		return
	}
	d := driver.New(driver.Options{Root: root})
	err := d.Open(t.Context())
	wantError(t, err, driver.ErrNoLibrary)
	if !strings.Contains(err.Error(), root) {
		t.Errorf("the error does not say where: %v", err)
	}
	if err := os.WriteFile(double.Library(), []byte("no library"), 0o644); err != nil {
		t.Fatal(err)
	}
	wantError(t, d.Open(t.Context()), driver.ErrNoLibrary)
	wantError(t, driver.New(driver.Options{Library: double.Library() + ".6"}).Open(t.Context()), driver.ErrNoLibrary)
	build(t, double)
	unload := func(s nvml.State) {
		s.Driver().Fail(nvml.All, "UNINITIALIZED").Fail("nvmlInit", "DRIVER_NOT_LOADED")
		s.GPU(0).Fail(nvml.All, "UNINITIALIZED")
	}
	update(t, double, func(s nvml.State) { s.AddGPU(0); unload(s) })
	wantError(t, d.Open(t.Context()), driver.ErrNoDriver)
	for generation := range 2 {
		update(t, double, func(s nvml.State) {
			s.Driver().Mend(nvml.All).Mend("nvmlInit").Set("driver.generation", generation)
			s.GPU(0).Mend(nvml.All)
		})
		if err := d.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		sound(t, snapshot(t, d))
		update(t, double, unload)
		_, err := d.Snapshot(t.Context())
		wantError(t, err, driver.ErrDriverGone)
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	t.Log(finished)
}

// Verifies that after the loaded library is removed or replaced the driver counts as not
// loaded, until a driver is loaded that the loaded library does not match, or the settings name
// another library: only then is a new process needed.
func TestLibraryIsReplaced(t *testing.T) {
	double, root := alone(t)
	if double == nil {
		return
	}
	build(t, double)
	update(t, double, func(s nvml.State) { s.AddGPU(0) })
	d := driver.New(driver.Options{Root: root})
	initAnswers := func(answer string) {
		t.Helper()
		if err := d.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		update(t, double, func(s nvml.State) { s.Driver().Fail("nvmlInit", answer) })
	}
	open := func(want error, d *driver.Driver) {
		t.Helper()
		if err := d.Open(t.Context()); !errors.Is(err, want) || errors.Is(err, driver.ErrRestart) != errors.Is(want, driver.ErrRestart) {
			t.Errorf("Open: %v, want %v", err, want)
		}
	}
	open(nil, d)
	other, err := nvml.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	open(driver.ErrRestart, driver.New(driver.Options{Library: other}))
	initAnswers("DRIVER_NOT_LOADED")
	if err := os.Remove(double.Library()); err != nil {
		t.Fatal(err)
	}
	open(driver.ErrNoLibrary, d)
	// On the host the dynamic linker finds a library outside the usual directories.
	open(driver.ErrNoDriver, driver.New(driver.Options{Library: nvml.LibraryName}))
	build(t, double)
	open(driver.ErrNoDriver, d)
	initAnswers("LIB_RM_VERSION_MISMATCH")
	open(driver.ErrRestart, d)
	initAnswers("SUCCESS") // the driver was installed again, or never unloaded
	open(nil, d)
	sound(t, snapshot(t, d))
	t.Log(finished)
}

// The C library gives the same results as the mocks: a lost GPU in the middle, MIG
// devices, switches, conditions, events, telemetry, a call that hangs. The mocks do not have heat,
// caches and the fabric's health; only the values of the caches are absent if the driver lets only
// root read them.
func TestThroughC(t *testing.T) {
	double, root := alone(t)
	if double == nil {
		return
	}
	build(t, double)
	update(t, double, func(s nvml.State) {
		for slot := range 4 {
			s.AddGPU(slot)
		}
		s.Switched(18, 0, 1, 2, 3)
		s.GPU(1).Fail(nvml.All, "GPU_IS_LOST")
		s.AddMIG(2, 3, 1, 10240)
		s.GPU(3).Set("recovery-action", 1).Set("pci", "00010000:E1:00.0")
		s.GPU(0).Set("topology", "node")
	})
	d := driver.New(driver.Options{Root: root, Timeout: 10 * time.Second}) // many times what a call takes
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := snapshot(t, d)
	sound(t, s, 1)
	wantError(t, s.GPUs[1].Err, driver.ErrLost)
	if s.DriverVersion != "580.65.06" || s.CUDAVersion != "13.0" || s.GPUs[0].UUID != nvml.UUID(0) || s.GPUs[0].Architecture != "Hopper" {
		t.Errorf("%+v", s)
	}
	if g := s.GPUs[2]; len(g.Instances) != 1 || g.Instances[0].UUID != nvml.MIGUUID(2, 3) || g.Instances[0].Profile != "1g.10gb" ||
		g.Instances[0].GPUInstance != 4 || g.Instances[0].MemoryBytes != 10240<<20 {
		t.Errorf("%+v", g)
	}
	c := s.GPUs[3].Condition
	if c.Recovery == nil || *c.Recovery != driver.RecoveryReset || c.RemapPending == nil || c.ECCUncorrected == nil ||
		c.RepairPending == nil || c.Unrepairable == nil || s.GPUs[3].PCIBusID != "10000:e1:00.0" {
		t.Errorf("%+v, %+v", s.GPUs[3], c)
	}
	if got := kinds(s); len(got) != 3 || got["0-2"] != "NVSWITCH 18 SAME_NUMA" {
		t.Error(got)
	}
	stream := listen(t, d)
	for event, want := range map[string]driver.Event{
		"gpu 2 xid 94 gi 4 ci 0":  {Type: driver.EventXID, GPU: nvml.UUID(2), XID: 94, GPUInstance: 4},
		"gpu 3 type fatal-poison": {Type: driver.EventFatalPoison, GPU: nvml.UUID(3), GPUInstance: driver.Whole, ComputeInstance: driver.Whole},
		"gpu 0 type clock":        {},
	} {
		if _, err := double.Event(event); err != nil {
			t.Fatal(err)
		}
		if want.Type == "" {
			continue
		}
		e := receive(t, stream)
		if e.PCIBusID == "" { // identified by its handle, without a call on the GPU
			t.Errorf("%s: %+v", event, e)
		}
		e.Time, e.PCIBusID = time.Time{}, ""
		if e != want {
			t.Errorf("%s: %+v", event, e)
		}
	}
	all, err := d.Telemetry(t.Context())
	if err != nil || len(all) != 4 || values(all[0])["power_watts"] != 70 || values(all[0])["temperature_celsius{sensor=memory}"] != 44 ||
		values(all[2])["memory_total_bytes"] != 10240<<20 {
		t.Error(all, err)
	}
	update(t, double, func(s nvml.State) {
		s.GPU(1).Mend(nvml.All)
		s.GPU(0).Set("ecc.sram-threshold-exceeded", 1).Set("fabric.state", 3).Set("fabric.health-summary", 2)
		s.GPU(1).Set("temperature", 110).Set("temperature.threshold.1", 95).Set("fabric.state", 3).Set("fabric.health-summary", 3)
		s.GPU(2).Set("clocks-event-reasons", 0x40).Fail("nvmlDeviceGetSramEccErrorStatus", "NO_PERMISSION")
		s.GPU(3).Set("temperature", 80).Set("temperature.threshold.1", 95).Set("fabric.state", 3).Set("fabric.health-summary", 1)
	})
	s = snapshot(t, d)
	sound(t, s)
	text := func(b *bool) string {
		if b == nil {
			return "?"
		}
		return strings.ToUpper(strconv.FormatBool(*b)[:1])
	}
	for i, want := range []string{"TFTF", "FTFT", "?T??", "FFFF"} {
		c := s.GPUs[i].Condition
		if got := text(c.SRAMExceeded) + text(c.Overheated) + text(c.FabricUnhealthy) + text(c.FabricLimited); got != want {
			t.Errorf("GPU %d: caches, heat, fabric unhealthy, fabric limited are %s, want %s", i, got, want)
		}
	}
	update(t, double, func(s nvml.State) { s.GPU(0).Hang("nvmlDeviceGetName", time.Hour) })
	for range 5 {
		s = snapshot(t, d)
	}
	sound(t, s, 0)
	wantError(t, s.GPUs[0].Err, driver.ErrNoAnswer)
	update(t, double, func(s nvml.State) { s.GPU(0).Mend("nvmlDeviceGetName") })
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	sound(t, snapshot(t, d))
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}
	t.Log(finished)
}

// A library without the optional functions does not crash the process.
func TestOldLibrary(t *testing.T) {
	double, root := alone(t)
	if double == nil {
		return
	}
	needed := []string{"nvmlInit_v2", "nvmlShutdown", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID",
		"nvmlDeviceGetPciInfo", "nvmlDeviceGetMemoryInfo"}
	var without []string
	for _, function := range append(drivertest.Functions(), "nvmlDeviceGetRepairStatus", "nvmlDeviceGetUnrepairableMemoryFlag_v1",
		"nvmlDeviceGetCurrentClocksThrottleReasons") {
		if !slices.Contains(needed, function) {
			without = append(without, function, function+"_v2", function+"_v3")
		}
	}
	build(t, double, without...)
	update(t, double, func(s nvml.State) { s.AddGPU(0); s.AddGPU(1) })
	d := driver.New(driver.Options{Root: root})
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := snapshot(t, d)
	sound(t, s)
	if s.GPUs[0].Name != "" || s.Links != nil {
		t.Errorf("the library has more than it should: %+v", s)
	}
	if _, err := d.Telemetry(t.Context()); err != nil {
		t.Error(err)
	}
	_, err := d.Listen(t.Context())
	wantError(t, err, driver.ErrNotSupported)
	_, err = d.Processes(t.Context(), s.GPUs[0].UUID)
	wantError(t, err, driver.ErrNotSupported)
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}
	t.Log(finished)
}
