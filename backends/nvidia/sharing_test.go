package nvidia

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
	"github.com/accelmux/accelmux/backends/nvidia/mps/mpstest"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/patience"
)

// startMPS returns a backend that shares GPUs by MPS, with more settings of MPS, and its
// companion. The daemon is broken.
func startMPS(t *testing.T, lib *drivertest.Library, gpus int, rescan, more string) *rig {
	t.Helper()
	r := newRig(t, lib, gpus)
	r.file("", "pipe", "broken")
	program := mpstest.Install(r.files)
	r.configure(fmt.Sprintf(`{"edits": {"mode": "runtime"}, "rescan": %q, "mps": {"replicas": 2, "dir": %q %s}}`, rescan, r.files.Root, more))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Starts the companion as a unit does.
	companion := exec.Command(self)
	companion.Env = append(os.Environ(), companionArgs+"=--dir="+r.files.Root+"\n--program="+program)
	companion.Stderr = os.Stderr
	if err := companion.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = companion.Process.Signal(unix.SIGTERM)
		if err := companion.Wait(); err != nil {
			t.Errorf("the companion: %v", err)
		}
	})
	patience.Until(t, "the companion listens", func() bool { _, err := os.Stat(r.path("socket")); return err == nil })
	r.watch()
	return r
}

// mend lets the daemon start.
func (r *rig) mend() {
	r.t.Helper()
	if err := os.Remove(r.path("pipe", "broken")); err != nil {
		r.t.Fatal(err)
	}
}

// A GPU that is shared by MPS is healthy only while the daemon is ready; others are not
// affected. A container gets the edits for the daemon.
func TestMPS(t *testing.T) {
	t.Parallel() // it waits for programs, and for a clock
	lib := drivertest.New("H100 80GB", 2)
	uuid := lib.GPUs[0].UUID
	r := startMPS(t, lib, 2, "1h", fmt.Sprintf(`, "uuids": [%q]`, uuid))
	inv := r.Until("the shared one is not ready", func(inv *backendv1.Inventory) bool {
		return onlyBad(2, 0, "mps-not-ready")(inv) && strings.Contains(healthAt(0, inv).GetMessage(), "already running")
	})
	if got := healthAt(0, inv).GetRecovery(); got != sdk.RecoverySelf {
		t.Errorf("its fault needs %v, want it to pass by itself", got)
	}
	r.mend()
	inv = r.Until("both healthy", healthy(2))
	shared, plain := inv.GetDevices()[0], inv.GetDevices()[1]
	if shared.GetAttributes()["sharing"].GetStringValue() != "mps" || shared.GetAttributes()["sharingReplicas"].GetIntValue() != 2 {
		t.Errorf("the shared one has the attributes %v", shared.GetAttributes())
	}
	if shared.GetPreparedFor() != 2 || plain.GetPreparedFor() != 0 {
		t.Errorf("they are set up for %d and %d containers, want 2, and any number", shared.GetPreparedFor(), plain.GetPreparedFor())
	}
	mounts := shared.GetEdits().GetMounts()
	if shared.GetEdits().GetEnv()["CUDA_MPS_PIPE_DIRECTORY"] != r.path("pipe") || len(mounts) != 2 ||
		mounts[0].GetHostPath() != r.path("pipe") || mounts[1].GetContainerPath() != "/dev/shm" {
		t.Errorf("a container gets %v", shared.GetEdits())
	}
	if e := plain.GetEdits(); plain.GetAttributes()["sharing"] != nil || len(e.GetMounts()) > 0 || e.GetEnv()["CUDA_MPS_PIPE_DIRECTORY"] != "" {
		t.Errorf("the other one is shared: %v", plain)
	}
	pid := r.daemon()
	r.configure("")
	inv = r.Until("nothing is shared", func(inv *backendv1.Inventory) bool {
		return inv.GetDevices()[0].GetAttributes()["sharing"] == nil
	})
	if !healthy(2)(inv) {
		t.Errorf("not all are healthy: %v", inv)
	}
	r.await("the daemon ended", func() bool { return unix.Kill(pid, 0) != nil })
}

// Verifies that with claims a GPU is shareable by memory and threads, that a holder gets the limits of its own
// share, or the usual ones, and that several GPUs of one holder must have equal ones.
func TestMPSShares(t *testing.T) {
	t.Parallel() // it waits for programs, and for a clock
	lib := drivertest.New("H100 80GB", 2)
	r := startMPS(t, lib, 2, "1h", `, "claims": true`)
	r.mend()
	gpu := r.Until("both healthy", healthy(2)).GetDevices()[0]
	memory, policies := gpu.GetCapacities()["memory"], gpu.GetRequestPolicies()
	if !gpu.GetShareable() || gpu.GetPreparedFor() != 0 || gpu.GetCapacities()["threads"] != 100 || len(gpu.GetHooks()) != 1 ||
		policies["threads"].GetDefault() != 50 || policies["memory"].GetDefault() != memory>>21<<20 {
		t.Errorf("the device is %v", gpu)
	}
	if got := r.read("pipe", "commands"); strings.Contains(got, "set_default") {
		t.Errorf("the daemon has limits: %s", got)
	}
	held := func(n int, memory, threads int64) *backendv1.HeldDevice {
		d := &backendv1.HeldDevice{Id: lib.GPUs[n].UUID, Shared: true}
		if memory > 0 {
			d.Capacities = map[string]int64{"memory": memory, "threads": threads}
		}
		return d
	}
	for name, c := range map[string]struct {
		devices         []*backendv1.HeldDevice
		memory, threads string
	}{
		"a share":                  {[]*backendv1.HeldDevice{held(0, 8<<30, 20)}, "0=8192M", "20"},
		"by the device plugin API": {[]*backendv1.HeldDevice{held(0, 0, 0)}, fmt.Sprintf("0=%dM", memory>>21), "50"},
		"two alike":                {[]*backendv1.HeldDevice{held(0, 8<<30, 20), held(1, 8<<30, 20)}, "0=8192M,1=8192M", "20"},
		"two that differ":          {[]*backendv1.HeldDevice{held(0, 8<<30, 20), held(1, 4<<30, 20)}, "", ""},
	} {
		var res *backendv1.PrepareResponse
		done := make(chan error, 1)
		go func() {
			var err error
			res, err = r.Prepare(t.Context(), &backendv1.PrepareRequest{Holder: &backendv1.Holder{Id: name}, Devices: c.devices})
			done <- err
		}()
		err := r.prepared(done)
		if (c.memory == "") != (err != nil) || err != nil && !strings.Contains(err.Error(), "request the same memory and threads of each") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, d := range c.devices[:len(res.GetEdits())] {
			env := res.GetEdits()[d.GetId()].GetEnv()
			if env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] != c.memory || env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] != c.threads {
				t.Errorf("%s: the container gets %v", name, env)
			}
		}
		if err == nil && len(res.GetEdits()) != len(c.devices) {
			t.Errorf("%s: edits of %d devices", name, len(res.GetEdits()))
		}
	}
}

// daemon returns the process ID of the daemon.
func (r *rig) daemon() int {
	r.t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(r.read("pipe", "pid")))
	if err != nil {
		r.t.Fatal(err)
	}
	return pid
}

func (r *rig) read(parts ...string) string {
	text, _ := os.ReadFile(r.path(parts...)) // "" if it is not there
	return string(text)
}

// A lost GPU does not stop the daemon for the others. A GPU in MIG mode, or one that does
// not exist, cannot be shared, which is reported if the settings name it.
func TestMPSOnlyWherePossible(t *testing.T) {
	t.Parallel() // it waits for programs, and for a clock
	lib := drivertest.New("H100 80GB", 3)
	uuids := make([]string, 3)
	for i, gpu := range lib.GPUs {
		uuids[i] = gpu.UUID
	}
	lib.GPUs[2].SetMIG(true)
	r := startMPS(t, lib, 3, "1s", fmt.Sprintf(`, "uuids": [%q, %q, %q, "GPU-elsewhere"]`, uuids[0], uuids[1], uuids[2]))
	r.mend()
	inv := r.Until("three healthy GPUs", healthy(3))
	if problems := strings.Join(inv.GetProblems(), "\n"); !strings.Contains(problems, "GPU-elsewhere: mps.uuids") ||
		!strings.Contains(problems, uuids[2]+": mps.uuids") || len(inv.GetProblems()) != 2 {
		t.Errorf("problems are %q", inv.GetProblems())
	}
	if inv.GetDevices()[2].GetAttributes()["sharing"] != nil {
		t.Error("a GPU in MIG mode is shared")
	}
	visible := func() string {
		_, after, _ := strings.Cut(r.read("pipe", "env"), "CUDA_VISIBLE_DEVICES=")
		line, _, _ := strings.Cut(after, "\n")
		return line
	}
	lib.Lose(1)
	r.Until("the second lost", onlyBad(3, 1, "gpu-lost"))
	r.await("the daemon does without it", func() bool { return visible() == uuids[0] })
	lib.Fail(1, "", nvml.SUCCESS)
	r.Until("all healthy, and so both in the daemon", healthy(3))
	if got := visible(); !strings.Contains(got, uuids[0]) || !strings.Contains(got, uuids[1]) || strings.Contains(got, uuids[2]) {
		t.Errorf("the daemon sees %s, want the first two of %s", got, uuids)
	}
}
