package nvidia

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// prepare calls Prepare concurrently.
func (r *rig) prepare(ctx context.Context, ids ...string) <-chan error {
	return r.prepareShared(ctx, nil, ids...)
}

// prepareShared is prepare for devices of which other containers have some allocated, too.
func (r *rig) prepareShared(ctx context.Context, shared []string, ids ...string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := r.Prepare(ctx, &backendv1.PrepareRequest{Resource: "nvidia.com/gpu", Devices: sdktest.Held(shared, ids...)})
		done <- err
	}()
	return done
}

// prepared waits for a call of Prepare.
func (r *rig) prepared(done <-chan error) (err error) {
	r.t.Helper()
	r.During(func() { err = <-done })
	return err
}

// Prepare runs the steps in the settings, and no more; without any, no device requests
// the call. Package process has the tests of what leftovers mean for each setting.
func TestPrepare(t *testing.T) {
	use := func(r *rig, lib *drivertest.Library) {
		r.file("python\n", "proc", "4711", "comm")
		lib.GPUs[0].SetProcesses(nvml.ProcessInfo{Pid: 4711, GpuInstanceId: driver.Whole, ComputeInstanceId: driver.Whole})
	}
	fault := func(_ *rig, lib *drivertest.Library) { lib.GPUs[0].SetRemapped(true, false) }
	errors := func(_ *rig, lib *drivertest.Library) { lib.GPUs[0].SetECC(3) }
	cannotSay := func(_ *rig, lib *drivertest.Library) {
		lib.Fail(0, "nvmlDeviceGetComputeRunningProcesses", nvml.ERROR_UNKNOWN)
	}
	for name, c := range map[string]struct {
		prepare string
		set     func(*rig, *drivertest.Library)
		want    string // part of the error
		hook    bool
	}{
		"nothing":                            {prepare: `{}`, set: use},
		"reported leftovers":                 {prepare: `{"leftovers": "report"}`, set: use, hook: true},
		"leftovers that fail":                {prepare: `{"leftovers": "fail"}`, set: use, hook: true, want: "python (4711)"},
		"leftovers unknown":                  {prepare: `{"leftovers": "fail"}`, set: cannotSay, hook: true, want: "not known"},
		"a check finds a fault":              {prepare: `{"check": true}`, set: fault, hook: true, want: "memory rows are to be remapped"},
		"a check finds errors":               {prepare: `{"check": true}`, set: errors, hook: true, want: "3 uncorrectable"},
		"a check finds errors that are over": {prepare: `{"check": true}`, hook: true, set: func(r *rig, lib *drivertest.Library) { errors(r, lib); lib.GPUs[0].SetField(recoveryField, 0) }},
		"a check finds a GPU that is lost":   {prepare: `{"check": true}`, hook: true, want: "fallen off the bus", set: func(_ *rig, lib *drivertest.Library) { lib.Lose(0) }},
		"a check finds no driver":            {prepare: `{"check": true}`, hook: true, want: "driver", set: func(_ *rig, lib *drivertest.Library) { lib.Unload() }},
		"memory":                             {prepare: `{"maxMemoryUsedMiB": 1000000}`, hook: true},
		"memory in use":                      {prepare: `{"maxMemoryUsedMiB": 1000}`, hook: true, want: "1001 MiB", set: func(_ *rig, lib *drivertest.Library) { lib.GPUs[0].SetMemoryUsed(1001 << 20) }},
		"memory unknown":                     {prepare: `{"maxMemoryUsedMiB": 1}`, hook: true, want: "not known", set: func(_ *rig, lib *drivertest.Library) { lib.Lose(0) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lib := drivertest.New("H100 80GB", 2)
				r, tool := withTool(t, lib, `, "prepare": `+c.prepare)
				inv := r.Until("two healthy GPUs", healthy(2))
				for _, d := range inv.GetDevices() {
					if has := len(d.GetHooks()) == 1 && d.GetHooks()[0] == backendv1.Hook_HOOK_PREPARE; has != c.hook {
						t.Errorf("hooks are %v, want Prepare: %v", d.GetHooks(), c.hook)
					}
				}
				if c.set != nil {
					c.set(r, lib)
				}
				err := r.prepared(r.prepare(t.Context(), ids(inv)[0]))
				if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("Prepare: %v, want %q", err, c.want)
				}
				if err := r.prepared(r.prepare(t.Context(), "GPU-0")); err == nil || !strings.Contains(err.Error(), "GPU-0") {
					t.Errorf("Prepare of an unknown device: %v", err)
				}
				tool.idle()
			})
		})
	}
}

// Processes and memory on a device that another container has allocated, too, count as that
// container's: they fail no start, while those of the other device do.
func TestPrepareShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for settings, want := range map[string]string{
			`{"leftovers": "fail"}`:      "is still used",
			`{"maxMemoryUsedMiB": 1000}`: "1001 MiB",
		} {
			lib := drivertest.New("H100 80GB", 2)
			r, _ := withTool(t, lib, `, "prepare": `+settings)
			all := ids(r.Until("two healthy GPUs", healthy(2)))
			for i := range lib.GPUs {
				lib.GPUs[i].SetProcesses(nvml.ProcessInfo{Pid: 4711, GpuInstanceId: driver.Whole, ComputeInstanceId: driver.Whole})
				lib.GPUs[i].SetMemoryUsed(1001 << 20)
			}
			if err := r.prepared(r.prepareShared(t.Context(), all, all...)); err != nil {
				t.Errorf("%s: shared devices: %v", settings, err)
			}
			err := r.prepared(r.prepareShared(t.Context(), all[:1], all...))
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), all[1]) {
				t.Errorf("%s: one device that is not shared: %v, want %q of %s", settings, err, want, all[1])
			}
		}
	})
}

// Before a start a GPU is reset only if that affects no other container.
func TestPrepareResets(t *testing.T) {
	t.Parallel() // it waits for programs, and for a clock
	lib := drivertest.New("H100 80GB", 3)
	lib.Connect(0, 1, 4)
	lib.GPUs[0].Config.Architecture, lib.GPUs[1].Config.Architecture = nvml.DEVICE_ARCH_VOLTA, nvml.DEVICE_ARCH_VOLTA // reset together
	lib.GPUs[2].SetProcesses(nvml.ProcessInfo{Pid: 1})
	r, tool := withTool(t, lib, `, "prepare": {"reset": true, "check": true}`)
	all := ids(r.Until("three healthy GPUs", healthy(3)))
	for name, requested := range map[string][]string{"half of a group": all[:1], "in use": all[2:]} {
		if err := r.prepared(r.prepare(t.Context(), requested...)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		tool.idle()
	}
	// A replica of one of them is allocated to another container, which has no process yet.
	short, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := r.Prepare(short, &backendv1.PrepareRequest{Devices: sdktest.Held(all[1:2], all[:2]...)}); err != nil {
		t.Errorf("shared: %v", err)
	}
	tool.idle()
	done := r.prepare(t.Context(), all[:2]...)
	if got := tool.call(); !strings.HasSuffix(got, strings.Join(all[:2], ",")) {
		t.Errorf("nvidia-smi was called with %q", got)
	}
	// Another Prepare waits until the driver is back.
	other := r.prepare(t.Context(), all[2])
	tool.end(0, "done")
	for _, done := range []<-chan error{done, other} {
		if err := r.prepared(done); err != nil {
			t.Error(err)
		}
	}
	done = r.prepare(t.Context(), all[:2]...)
	tool.call()
	tool.end(1, "no way")
	if err := r.prepared(done); err == nil || !strings.Contains(err.Error(), "no way") {
		t.Errorf("Prepare whose reset fails: %v", err)
	}
}

// MIG devices are independent: they share neither processes nor resets.
func TestPrepareMIG(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := drivertest.New("H100 80GB", 1)
		lib.GPUs[0].SetMIG(true, &drivertest.Instance{UUID: "MIG-1", GPUInstance: 1}, &drivertest.Instance{UUID: "MIG-2", GPUInstance: 2})
		lib.GPUs[0].SetProcesses(nvml.ProcessInfo{Pid: 7, GpuInstanceId: 2})
		r, tool := withTool(t, lib, `, "mig": {"strategy": "mixed"}, "prepare": {"leftovers": "fail", "reset": true}`)
		r.capability(0, 1)
		r.capability(0, 2)
		r.Until("two MIG devices", healthy(2))
		if err := r.prepared(r.prepare(t.Context(), "MIG-1")); err != nil {
			t.Error(err)
		}
		if err := r.prepared(r.prepare(t.Context(), "MIG-2")); err == nil || !strings.Contains(err.Error(), "7") {
			t.Errorf("Prepare of a MIG device that is in use: %v", err)
		}
		lib.GPUs[0].SetProcesses()
		if err := r.prepared(r.prepare(t.Context(), "MIG-1", "MIG-2")); err != nil {
			t.Error(err)
		}
		tool.idle()
	})
}
