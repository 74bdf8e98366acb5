package nvidia

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
	"github.com/accelmux/accelmux/backends/nvidia/gpu"
	"github.com/accelmux/accelmux/backends/uevent"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies that on a driver without a recovery action a GPU that was lost and answers
// again has recovered after a self-test: it has answered for a minute, without an error event.
func TestLostGPUThatAnswersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := drivertest.New("H100 80GB", 2)
		r := start(t, lib, 2, `{"edits": {"mode": "runtime"}, "rescan": "10s"}`)
		r.Until("two healthy GPUs", healthy(2))
		r.rest(time.Minute)
		recovered := func(inv *backendv1.Inventory) bool { return healthAt(1, inv).GetRecovered() }
		lib.Lose(1)
		r.tells(uevent.Change, 1)
		r.Until("it is lost", onlyBad(2, 1, "gpu-lost"))
		lib.Fail(1, "", nvml.SUCCESS)
		r.tells(uevent.Change, 1)
		r.Until("it answers, which is no evidence yet", healthy(2))
		began := time.Now()
		r.rest(gpu.SelfTest / 2)
		lib.GPUs[1].XID(79)
		r.Until("an error in its test", onlyBad(2, 1, "xid-79"))
		r.rest(gpu.SelfTest / 2)
		inv := r.Until("it has recovered", recovered)
		if took := time.Since(began); took < gpu.SelfTest*3/2 || took > 2*gpu.SelfTest {
			t.Errorf("it had recovered after %v, want one test of %v after the last error", took, gpu.SelfTest)
		}
		if healthAt(0, inv).GetRecovered() {
			t.Error("the other GPU had no fault and no test")
		}
	})
}

// Verifies that a GPU which this process has not seen lost clears what an earlier process may
// have reported once it has answered for a minute, and not while it has a fault of its own.
func TestAnswersClearWhatAnEarlierProcessReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := drivertest.New("H100 80GB", 1)
		r := start(t, lib, 1, `{"edits": {"mode": "runtime"}, "rescan": "10s"}`)
		cleared := func(inv *backendv1.Inventory) bool {
			return slices.Equal(healthAt(0, inv).GetClearedCodes(), []string{"gpu-gone", "gpu-lost", "reset-required"})
		}
		began := time.Now()
		r.rest(gpu.SelfTest / 2)
		inv := r.Until("its answers are evidence", cleared)
		if took := time.Since(began); took < gpu.SelfTest || took > 2*gpu.SelfTest || healthAt(0, inv).GetRecovered() {
			t.Errorf("after %v: %v", took, healthAt(0, inv))
		}
		lib.GPUs[0].XID(48)
		r.Until("an error", func(inv *backendv1.Inventory) bool { return onlyBad(1, 0, "xid-48")(inv) && !cleared(inv) })
		r.rest(gpu.SelfTest / 2)
		r.Until("it answers again, with the fault", func(inv *backendv1.Inventory) bool { return onlyBad(1, 0, "xid-48")(inv) && cleared(inv) })
	})
}

// Verifies that a GPU that NVML leaves out because its device node is missing is a
// problem that names the node, and that it is listed when the node is made, without a
// restart and without an event.
func TestNodeThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := drivertest.New("H100 80GB", 2)
		lib.Plug(1)
		r := newRig(t, lib, 1)
		r.plug(0)
		r.plug(1)
		for i := range 2 {
			r.file(fmt.Sprintf("Model: \t\t NVIDIA H100\nDevice Minor: \t %d\n", i), "proc", "driver", "nvidia", "gpus", bus(i), "information")
		}
		r.configure(rarely)
		r.watch()
		inv := r.Until("a GPU that is not listed", func(inv *backendv1.Inventory) bool { return len(inv.GetProblems()) > 0 })
		if got := inv.GetProblems(); len(got) != 1 || !strings.Contains(got[0], "/dev/nvidia1 is missing") || !strings.Contains(got[0], "nvidia-modprobe -c 1") || strings.Contains(got[0], "reboot") {
			t.Errorf("problems are %q, want one that names the node", got)
		}
		r.rest(10 * time.Second)
		lib.Plug(2)
		r.file("", "dev", "nvidia1")
		within(t, time.Minute, "finding the GPU", func() { inv = r.Until("two healthy GPUs", healthy(2)) })
		if got := inv.GetProblems(); len(got) > 0 {
			t.Errorf("problems are %q", got)
		}
		// It disappears again; now the backend has a record of the GPU.
		r.rest(time.Minute)
		r.reopen(func() {
			lib.Plug(1)
			if err := os.Remove(r.path("dev", "nvidia1")); err != nil {
				t.Error(err)
			}
		})
		inv = r.Until("the node is missing", onlyBad(2, 1, "gpu-gone"))
		if got := healthAt(1, inv).GetMessage(); !strings.Contains(got, "/dev/nvidia1 is missing") {
			t.Errorf("the message is %q, want the node", got)
		}
		lib.Plug(2)
		r.file("", "dev", "nvidia1")
		within(t, time.Minute, "finding the GPU again", func() { r.Until("two healthy GPUs again", healthy(2)) })
	})
}
