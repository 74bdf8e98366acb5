package amd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/amdtree"
)

// call makes a call to the backend, and takes the stream's events meanwhile.
func call[T any](r *rig, f func() (T, error)) T {
	r.t.Helper()
	var answer T
	var err error
	r.During(func() { answer, err = f() })
	r.do(err)
	return answer
}

func (r *rig) reset(ids ...string) map[string]*backendv1.ResetResult {
	r.t.Helper()
	response := call(r, func() (*backendv1.ResetResponse, error) {
		return r.Reset(r.t.Context(), &backendv1.ResetRequest{DeviceIds: ids})
	})
	all := map[string]*backendv1.ResetResult{}
	for _, result := range response.GetResults() {
		all[result.GetDeviceId()] = result
	}
	return all
}

// A reset of a GPU affects its partitions, and no more where there is no hive. It is refused
// for some of them, and while one is in use. Afterwards the errors from before are no fault.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := amdtree.NewMI300X("DPX", "NPS1")
		for i := range m.GPUs {
			m.GPUs[i].Hive = 0
		}
		at := m.GPUs[3].Address
		r := start(t, m, quick)
		r.Until("all devices", healthy(16))
		whole := gpu.ID(m.GPUs[3].UniqueID, at)
		first, second := whole+"-dpx-0", whole+"-dpx-1"
		r.do(r.tree.RaiseCounter(3, "umc.ue", 1))
		r.Until("the fault", onlyBad(16, at.String(), "ecc-uncorrectable"))

		refused := func(want string, ids ...string) {
			t.Helper()
			for id, result := range r.reset(ids...) {
				if result.GetRecovered() || !strings.Contains(result.GetMessage(), want) {
					t.Errorf("%s: %v, want %q", id, result, want)
				}
			}
		}
		refused(second, first)
		refused("there is no device", first, second, "amdgpu-0")
		if !onlyBad(16, at.String(), "ecc-uncorrectable")(r.Last) {
			t.Errorf("after refused resets: %v", sdktest.Summary(r.Last))
		}

		recover := filepath.Join(r.tree.Sysfs(), "kernel/debug/dri", at.String(), "amdgpu_gpu_recover")
		r.file("0\n", recover)
		queue := filepath.Join(r.tree.Sysfs(), "class/kfd/kfd/proc/41/queues/0/gpuid")
		r.file(fmt.Sprintf("%d\n", r.kfdID(at)), queue)
		refused("in use", first, second)
		r.do(os.RemoveAll(filepath.Join(r.tree.Sysfs(), "class/kfd/kfd/proc/41")))

		for id, result := range r.reset(first, second) {
			if !result.GetRecovered() {
				t.Errorf("%s: %v", id, result)
			}
		}
		if evidence := recovered(16, at.String()); !evidence(r.Last) { // unless it came with the call
			r.Until("evidence", evidence)
		}

		// A card whose memory still has bad pages has not recovered.
		r.do(r.tree.SetFile(filepath.Join("sys/bus/pci/devices", at.String(), "ras/gpu_vram_bad_pages"), "0x00000001 : 0x00001000 : F\n"))
		refused("the reset was done, but 1 bad pages", first, second)
	})
}

// Before a start the GPU is scanned, if settings require it.
func TestPrepare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := amdtree.NewMI210()
		r := start(t, m, strings.Replace(quick, `"interval": "1s"`, `"interval": "1h"`, 1))
		inv := r.Until("all GPUs", healthy(8))
		if hooks := inv.GetDevices()[0].GetHooks(); len(hooks) > 0 {
			t.Errorf("hooks %v without a need", hooks)
		}
		settings := strings.Replace(quick, `"interval": "1s"}`, `"interval": "1h"}, "prepare": {"check": true, "leftovers": "report"}`, 1)
		r.configure(settings)
		r.Until("devices with a hook", func(inv *backendv1.Inventory) bool { return len(inv.GetDevices()[0].GetHooks()) == 1 })
		id := gpu.ID(m.GPUs[5].UniqueID, m.GPUs[5].Address)
		prepare := func(id string, shared ...string) error {
			var err error
			r.During(func() {
				_, err = r.Prepare(t.Context(), &backendv1.PrepareRequest{Devices: sdktest.Held(shared, id), Resource: "amd.com/gpu"})
			})
			return err
		}
		r.do(prepare(id))
		r.do(r.tree.RaiseCounter(5, "umc.ue", 1)) // which is not read for an hour
		if err := prepare(id); err == nil || !strings.Contains(err.Error(), "1 uncorrectable errors") {
			t.Errorf("a faulty GPU is prepared: %v", err)
		}
		if err := prepare("amdgpu-1"); err == nil {
			t.Error("a device that is not there is prepared")
		}
		r.do(os.MkdirAll(filepath.Join(r.proc, "self/ns"), 0o755))
		r.do(os.Symlink("pid:[4026531836]", filepath.Join(r.proc, "self/ns/pid")))
		r.configure(strings.Replace(settings, "report", "fail", 1))
		other := gpu.ID(m.GPUs[0].UniqueID, m.GPUs[0].Address)
		r.eventually("the settings count", func() bool { return prepare(other) == nil })
		r.file("python\n", r.proc, "77/comm")
		r.file(fmt.Sprintf("%d\n", r.kfdID(m.GPUs[0].Address)), r.tree.Sysfs(), "class/kfd/kfd/proc/77/queues/0/gpuid")
		if err := prepare(other); err == nil || !strings.Contains(err.Error(), "python (77)") {
			t.Errorf("a device in use is prepared: %v", err)
		}
		if err := prepare(other, other); err != nil {
			t.Errorf("a device that another container holds, too, and may use: %v", err)
		}
	})
}

// Telemetry has the sensors of cards, and what was counted last.
func TestSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := amdtree.NewMI300X("DPX", "NPS1")
		r := start(t, m, quick)
		r.Until("all devices", healthy(16))
		metrics := call(r, func() (map[string]float64, error) {
			all, err := r.backend.Sample(t.Context())
			values := map[string]float64{}
			for _, m := range all {
				key := m.GetDeviceId() + " " + m.GetName() + m.GetLabels()["block"] + m.GetLabels()["type"] + m.GetLabels()["state"]
				if _, twice := values[key]; twice && m.GetLabels() == nil {
					t.Errorf("%s twice", key)
				}
				values[key] = m.GetValue()
			}
			return values, err
		})
		whole := gpu.ID(m.GPUs[0].UniqueID, m.GPUs[0].Address)
		for key, want := range map[string]float64{
			whole + " memory_total_bytes":             192 << 30,
			whole + "-dpx-1 memory_total_bytes":       96 << 30,
			whole + " ecc_errors_totalumcuncorrected": 0,
			whole + " memory_bad_pagesretired":        0,
			whole + " pcie_replays_total":             0,
		} {
			if got, ok := metrics[key]; !ok || got != want {
				t.Errorf("%s is %v (there: %v), want %v", key, got, ok, want)
			}
		}
	})
}
