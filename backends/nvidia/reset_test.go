package nvidia

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// withTool returns a watched backend with a stand-in for nvidia-smi.
func withTool(t *testing.T, lib *drivertest.Library, more string) (*rig, *tool) {
	t.Helper()
	r := newRig(t, lib, len(lib.GPUs))
	tool := newTool(r)
	r.configure(tool.settings(more))
	r.watch()
	return r, tool
}

// A GPU is reset while this process has no GPU open, then scanned: that it is healthy is the
// evidence that clears its faults.
func TestReset(t *testing.T) {
	t.Parallel() // it waits for programs, and for a clock
	lib := drivertest.New("H100 80GB", 2)
	r, tool := withTool(t, lib, "")
	all := ids(r.Until("two healthy GPUs", healthy(2)))
	lib.GPUs[1].XID(95)
	r.Until("XID 95", onlyBad(2, 1, "xid-95"))

	done := r.reset(all[1])
	if got, want := tool.call(), "--gpu-reset -i "+all[1]; got != want {
		t.Errorf("nvidia-smi was called with %q, want %q", got, want)
	}
	if inits, sets := lib.Initialised(), lib.Sets(); inits != 0 || sets != 0 {
		t.Errorf("NVML is initialised %d times and has %d sets of events while the GPU is reset", inits, sets)
	}
	// The loop continues meanwhile.
	if metrics := r.sample(); len(metrics) != 1 || metrics[0].GetName() != "xid_errors_total" {
		t.Errorf("metrics while a GPU is reset: %v", metrics)
	}
	tool.end(0, "GPU was successfully reset.")
	if recovered, message := r.outcome(done, 1); !recovered || !strings.Contains(message, "successfully reset") {
		t.Errorf("Reset: %v, %q", recovered, message)
	}
	lib.GPUs[0].XID(95) // the GPU sends events again
	r.Until("evidence, and another fault", func(inv *backendv1.Inventory) bool {
		return healthAt(1, inv).GetRecovered() && healthAt(0, inv).GetCode() == "xid-95"
	})
}

// A GPU that a process uses, or of which this process could not close the driver, is not reset. The
// engine refuses resets of unknown devices.
func TestResetRefused(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(r *rig, lib *drivertest.Library)
		want string
	}{
		"in use": {
			set: func(r *rig, lib *drivertest.Library) {
				r.file("python\n", "proc", "4711", "comm")
				lib.GPUs[0].SetProcesses(nvml.ProcessInfo{Pid: 4711}, nvml.ProcessInfo{Pid: 4712})
			},
			want: "python (4711), 4712",
		},
		"the driver cannot be closed": {
			set: func(r *rig, lib *drivertest.Library) {
				r.t.Cleanup(lib.Hang(1, "nvmlDeviceGetPowerUsage"))
				r.sample() // the call hangs and is abandoned
			},
			want: "this process itself",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lib := drivertest.New("H100 80GB", 2)
				r, tool := withTool(t, lib, "")
				all := ids(r.Until("two healthy GPUs", healthy(2)))
				c.set(r, lib)
				if recovered, message := r.outcome(r.reset(all[0]), 1); recovered || !strings.Contains(message, c.want) {
					t.Errorf("Reset: %v, %q, want a refusal with %q", recovered, message, c.want)
				}
				tool.idle()
			})
		})
	}
}

// A reset waits for a GPU that does not answer at once, and leaves the fault of another GPU
// unchanged; also if the GPU is identified by its PCI address, and reports a graver
// fault for a while.
func TestResetWaitsForTheGPU(t *testing.T) {
	t.Run("by nothing", func(t *testing.T) { resetWaits(t, false, nvml.ERROR_RESET_REQUIRED) })
	t.Run("by its place", func(t *testing.T) { resetWaits(t, true, nvml.ERROR_GPU_IS_LOST) })
}

func resetWaits(t *testing.T, plugged bool, answer nvml.Return) {
	t.Helper()
	t.Parallel() // it waits for programs, and for a clock
	lib := drivertest.New("H100 80GB", 2)
	r := newRig(t, lib, 2)
	if plugged {
		r.plug(0)
		r.plug(1)
	}
	tool := newTool(r)
	r.configure(strings.Replace(tool.settings(""), `"1s"`, `"1h"`, 1))
	r.watch()
	all := ids(r.Until("two healthy GPUs", healthy(2)))
	lib.GPUs[0].XID(95)
	lib.GPUs[1].XID(79)
	r.Until("two faults", func(inv *backendv1.Inventory) bool {
		return healthAt(0, inv).GetCode() == "xid-95" && healthAt(1, inv).GetCode() == "xid-79"
	})
	done := r.reset(all[0])
	tool.call()
	lib.Fail(0, "", answer)
	tool.end(0, "done")
	r.Until("a scan while it does not answer", func(inv *backendv1.Inventory) bool {
		return healthAt(0, inv).GetCode() == "resetting" || healthAt(0, inv).GetCode() == "xid-95" && healthAt(1, inv).GetCode() == "xid-79"
	})
	lib.Fail(0, "", nvml.SUCCESS)
	if recovered, message := r.outcome(done, 1); !recovered {
		t.Error(message)
	}
	if h := r.scan(all...).Devices[all[1]].GetHealth(); h.GetCode() != "xid-79" {
		t.Errorf("the other GPU became %v", h)
	}
}

// A reset destroys the MIG devices of its GPU, which is reported.
func TestResetEndsMIG(t *testing.T) {
	t.Parallel() // it waits for programs, and for a clock
	lib := drivertest.New("H100 80GB", 1)
	lib.GPUs[0].SetMIG(true, &drivertest.Instance{UUID: "MIG-1", GPUInstance: 1}, &drivertest.Instance{UUID: "MIG-2", GPUInstance: 2})
	r, tool := withTool(t, lib, `, "mig": {"strategy": "mixed"}`)
	r.capability(0, 1)
	r.capability(0, 2)
	all := ids(r.Until("two MIG devices", healthy(2)))
	if recovered, message := r.outcome(r.reset(all[0]), 1); recovered || !strings.Contains(message, all[1]) {
		t.Errorf("Reset of one: %v, %q", recovered, message)
	}
	tool.idle()
	done := r.reset(all...)
	if got, want := tool.call(), "--gpu-reset -i "+lib.GPUs[0].UUID; got != want {
		t.Errorf("nvidia-smi was called with %q, want %q", got, want)
	}
	lib.GPUs[0].SetMIG(true)
	tool.end(0, "done")
	if recovered, message := r.outcome(done, 2); recovered || !strings.Contains(message, "ended the MIG devices") {
		t.Errorf("Reset: %v, %q", recovered, message)
	}
}

// Without nvidia-smi the kernel resets the PCI device. The core has looked whether a process has it open.
func TestResetByPCI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := drivertest.New("H100 80GB", 1)
		r := newRig(t, lib, 1)
		r.configure(`{"edits": {"mode": "runtime"}, "rescan": "1s", "reset": {"method": "pci"}}`)
		r.watch()
		all := ids(r.Until("a healthy GPU", healthy(1)))
		trigger := []string{"sys", "bus", "pci", "devices", "0000:10:00.0", "reset"}
		r.file("", trigger...)
		if recovered, message := r.outcome(r.reset(all...), 1); !recovered {
			t.Error(message)
		}
		if text, err := os.ReadFile(r.path(trigger...)); string(text) != "1" || err != nil {
			t.Errorf("%s is %q, %v", r.path(trigger...), text, err)
		}
	})
}
