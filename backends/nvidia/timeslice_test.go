package nvidia

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// slicingRig is a backend on a node with GPUs whose time slices can be set, and an nvidia-smi that has a file for
// each GPU with its interval.
type slicingRig struct {
	*rig
	gpus []string
}

// newSlicingRig has the settings timeSlicing beside more; the record is in file.
func newSlicingRig(t *testing.T, lib *drivertest.Library, file, more string) *slicingRig {
	t.Helper()
	r := &slicingRig{rig: newRig(t, lib, len(lib.GPUs))}
	r.file("", "slices", "calls")
	path := r.files.Program("nvidia-smi", fmt.Sprintf(`#!/bin/sh
cd %s || exit 9
[ "$1 $2 $4" = "compute-policy -i --set-timeslice" ] || exit 9
[ ! -e unsupported ] || { echo "Setting timeslice is not supported for GPU $3"; exit 3; }
[ "$5" = 0 ] || [ ! -e slow ] || { echo called > slow; sleep 60; }
[ "$5" != 0 ] || [ ! -e stuck ] || { echo "GPU is busy"; exit 4; }
echo "$5" > "$3"
echo "$3 $5" >> calls
`, r.path("slices")))
	for _, g := range lib.GPUs {
		r.gpus = append(r.gpus, g.UUID)
	}
	r.configure(fmt.Sprintf(`{"edits": {"mode": "runtime"}, "rescan": "1s", "reset": {"tool": %q}, "timeSlicing": {"shares": 4, "stateFile": %q}%s}`, path, file, more))
	r.watch()
	return r
}

// ask calls Prepare with parameters for GPUs of a holder.
func (r *slicingRig) ask(ctx context.Context, holder, parameters string, devices ...*backendv1.HeldDevice) error {
	_, err := r.Prepare(ctx, &backendv1.PrepareRequest{Holder: &backendv1.Holder{Id: holder}, Devices: devices, ParametersJson: []byte(parameters)})
	return err
}

func (r *slicingRig) end(holder string, device *backendv1.HeldDevice) string {
	r.t.Helper()
	res, err := r.Release(r.t.Context(), &backendv1.ReleaseRequest{Holder: &backendv1.Holder{Id: holder}, Devices: []*backendv1.HeldDevice{device}})
	if err != nil {
		r.t.Fatal(err)
	}
	return res.GetResults()[0].GetMessage()
}

// want checks the intervals that the GPUs have, "" for one that was never set.
func (r *slicingRig) want(when string, intervals ...string) {
	r.t.Helper()
	var got []string
	for _, gpu := range r.gpus {
		text, err := os.ReadFile(r.path("slices", gpu))
		if err != nil && !os.IsNotExist(err) {
			r.t.Fatal(err)
		}
		got = append(got, strings.TrimSpace(string(text)))
	}
	if diff := cmp.Diff(intervals, got); diff != "" {
		r.t.Errorf("%s, the GPUs' intervals (-want +got):\n%s", when, diff)
	}
}

// wantError checks an error, none if words is empty.
func wantError(t *testing.T, what string, err error, words string) {
	t.Helper()
	if (err == nil) != (words == "") || err != nil && !strings.Contains(err.Error(), words) {
		t.Errorf("%s: %v, want %q", what, err, words)
	}
}

const short, long = `{"timeSlice": "Short"}`, `{"sharing": "TimeSlicing", "timeSlice": "Long"}`

// Verifies that a holder's interval is set on its GPUs alone, that holders which share a GPU must ask for the same,
// also after the backend was restarted, and that the last one to ask leaves the default.
func TestTimeSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib, file := drivertest.New("H100 80GB", 2), t.TempDir()+"/slices"
		r := newSlicingRig(t, lib, file, "")
		gpu := r.Until("two GPUs", healthy(2)).GetDevices()[0]
		if memory := gpu.GetCapacities()["memory"]; !gpu.GetShareable() || gpu.GetRequestPolicies()["memory"].GetDefault() != memory>>22<<20 ||
			len(gpu.GetHooks()) != 2 || gpu.GetAttributes()["sharing"].GetStringValue() != "time-slicing" {
			t.Errorf("the device is %v", gpu)
		}
		alone := sdktest.Held(nil, r.gpus...)
		shared := sdktest.Held(r.gpus, r.gpus...)
		wantError(t, "no interval", r.ask(t.Context(), "a", "", alone...), "")
		r.want("without an interval", "", "")
		wantError(t, "a asks for Short", r.ask(t.Context(), "a", short, alone[1]), "")
		wantError(t, "a repeats it", r.ask(t.Context(), "a", short, alone[1]), "")
		r.want("after Short", "", "1")
		wantError(t, "b asks for nothing", r.ask(t.Context(), "b", "", shared[1]), "")
		wantError(t, "b asks for Long", r.ask(t.Context(), "b", long, alone[0], shared[1]),
			"GPU "+r.gpus[1]+" cannot have time slices of the interval Long: another claim or container (UID a), which shares it, asked for Short")
		r.want("after the refusal", "0", "1") // what it had set on the other one is set back

		r = newSlicingRig(t, lib, file, "") // another process
		r.Until("two GPUs", healthy(2))
		wantError(t, "b asks for Long", r.ask(t.Context(), "b", long, shared[1]), "asked for Short")
		wantError(t, "b asks for Short", r.ask(t.Context(), "b", short, shared[1]), "")
		if message := r.end("a", shared[1]); message != "" {
			t.Error(message)
		}
		r.want("b still asks for it", "", "1")
		wantError(t, "b asks for Long now", r.ask(t.Context(), "b", long, shared[1]), "")
		r.want("b has another one", "", "3")
		for range 2 {
			if message := r.end("b", shared[1]); message != "" { // c shares it, and did not ask
				t.Error(message)
			}
		}
		r.want("nobody asks", "", "0")
		// The release of d was lost.
		wantError(t, "d", r.ask(t.Context(), "d", short, alone[1]), "")
		wantError(t, "e", r.ask(t.Context(), "e", long, alone[1]), "")
		r.want("after d", "", "3")
		wantError(t, "f", r.ask(t.Context(), "f", "", alone[1]), "")
		r.want("after e", "", "0")
		if text := r.read("slices", "calls"); strings.Count(text, "\n") != 6 {
			t.Errorf("nvidia-smi was called for\n%s", text)
		}
	})
}

// Verifies the words of failures, that what the driver refused is not set back, and that what may have been set is
// before the release succeeds.
func TestTimeSlicesFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := drivertest.New("H100 80GB", 2)
		r := newSlicingRig(t, lib, t.TempDir()+"/slices", "")
		r.Until("two GPUs", healthy(2))
		gpu := sdktest.Held(nil, r.gpus[0])[0]
		r.file("", "slices", "unsupported")
		wantError(t, "not supported", r.ask(t.Context(), "a", short, gpu), "set the time slices of GPU "+r.gpus[0]+" to the interval Short: nvidia-smi compute-policy -i "+
			r.gpus[0]+" --set-timeslice 1 failed (exit status 3): Setting timeslice is not supported")
		if message := r.end("a", gpu); message != "" {
			t.Error(message)
		}
		remove := func(name string) {
			t.Helper()
			if err := os.Remove(r.path("slices", name)); err != nil {
				t.Fatal(err)
			}
		}
		remove("unsupported")
		slow := r.fifo("slices", "slow")
		r.file("", "slices", "stuck")
		ctx, cancel := context.WithCancel(t.Context())
		asked := make(chan error, 1)
		go func() { asked <- r.ask(ctx, "a", short, gpu) }()
		r.called(slow)
		cancel() // no limit in time: the bubble's clock stands still while a process runs
		wantError(t, "too slow", <-asked, "canceled")
		remove("slow")
		if message := r.end("a", gpu); !strings.Contains(message, "to the interval Default: nvidia-smi") || !strings.HasSuffix(message, "GPU is busy") {
			t.Errorf("Release = %q", message)
		}
		remove("stuck")
		if message := r.end("a", gpu); message != "" {
			t.Error(message)
		}
		r.want("after the release", "0", "")

		wantError(t, "before the GPU is lost", r.ask(t.Context(), "b", short, gpu), "")
		lib.Lose(0)
		r.Until("one is lost", onlyBad(2, 0, "gpu-lost"))
		r.file("", "slices", "stuck")
		if message := r.end("b", gpu); message != "" {
			t.Errorf("the lost GPU is not released: %s", message)
		}
	})
}

// Verifies that the parameters are refused for what has no time slices to set.
func TestTimeSlicesRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := drivertest.New("H100 80GB", 2)
		lib.GPUs[0].SetMIG(true, &drivertest.Instance{UUID: "MIG-1", GPUInstance: 1})
		r := newSlicingRig(t, lib, t.TempDir()+"/slices", `, "mig": {"strategy": "mixed"}, "prepare": {"check": true}`)
		r.capability(0, 1)
		inv := r.Until("two devices", healthy(2))
		for _, d := range inv.GetDevices() {
			words := ""
			if d.GetId() == "MIG-1" {
				words = "do not apply to MIG-1: it must be a whole GPU"
				if d.GetShareable() || len(d.GetHooks()) != 1 {
					t.Errorf("the MIG device is %v", d)
				}
			}
			wantError(t, d.GetId(), r.ask(t.Context(), "a", short, sdktest.Held(nil, d.GetId())...), words)
		}
		r.configure(`{"edits": {"mode": "runtime"}, "rescan": "1s"}`)
		wantError(t, "without the setting", r.ask(t.Context(), "b", short, sdktest.Held(nil, r.gpus[1])...), "with the setting timeSlicing")
	})
}
