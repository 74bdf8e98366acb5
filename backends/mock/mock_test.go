package mock

import (
	"errors"
	"os"
	"strings"
	"testing"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// A scenario that is wrong is reported, and the last good one stays.
func TestBadScenarioFile(t *testing.T) {
	r := newRig(t, t.TempDir(), "")
	r.write("devices: {mock-0: {fault: {}}}")
	r.Until("the fault", healthOf("mock-0", unhealthy))
	r.write("devices: {mock-0: {falt: {}}}")
	inv := r.Until("the problem", func(inv *backendv1.Inventory) bool { return len(inv.GetProblems()) > 0 })
	if p := inv.GetProblems()[0]; !strings.Contains(p, r.file) || !strings.Contains(p, "devices.mock-0.falt: unknown field") || !strings.Contains(p, "last good") {
		t.Errorf("problem %q", p)
	}
	if device(inv, "mock-0").GetHealth().GetState() != unhealthy {
		t.Error("the last good scenario is gone")
	}
	r.write("devices: {mock-7: {}}\nproblems: [a card is dark]")
	inv = r.Until("the good scenario", healthOf("mock-0", healthy))
	if got := strings.Join(inv.GetProblems(), "|"); got != `a card is dark|scenario: no device is named "mock-7"` {
		t.Errorf("problems %s", got)
	}
	// A rename replaces the file atomically: one that is missing for a moment is empty.
	if err := errors.Join(os.Symlink(t.TempDir(), r.file+".new"), os.Rename(r.file+".new", r.file)); err != nil {
		t.Fatal(err)
	}
	r.Until("a directory in its place", func(inv *backendv1.Inventory) bool {
		return len(inv.GetProblems()) == 3 && strings.Contains(inv.GetProblems()[1], "no regular file")
	})
}

// A reset that works takes the fault away, until the file has another.
func TestReset(t *testing.T) {
	r := newRig(t, t.TempDir(), "")
	reset := func() *backendv1.ResetResult {
		t.Helper()
		res, err := r.Reset(t.Context(), &backendv1.ResetRequest{DeviceIds: []string{"mock-0"}})
		if err != nil {
			t.Fatal(err)
		}
		if len(res.GetResults()) == 0 {
			return nil
		}
		return res.GetResults()[0]
	}
	const fault = "devices: {mock-0: {fault: {code: c, recovery: reset}}}"
	r.write(fault)
	r.Until("the fault", healthOf("mock-0", unhealthy))
	if res := reset(); !res.GetRecovered() {
		t.Errorf("%v", res)
	}
	inv := r.Until("the reset's effect", healthOf("mock-0", healthy))
	if device(inv, "mock-0").GetHealth().GetRecovered() {
		t.Error("the inventory claims what only the reset's result should say")
	}
	r.write(fault + "\nproblems: [x]")
	inv = r.Until("the changed file", func(inv *backendv1.Inventory) bool { return len(inv.GetProblems()) == 1 })
	if device(inv, "mock-0").GetHealth().GetState() != healthy {
		t.Error("the same fault is back")
	}
	r.write("")
	r.Until("the end of it", func(inv *backendv1.Inventory) bool { return len(inv.GetProblems()) == 0 })
	r.write(fault)
	r.Until("the fault again", healthOf("mock-0", unhealthy))

	r.write("devices: {mock-0: {fault: {recovery: reboot}}}")
	if res := reset(); res.GetRecovered() || !strings.Contains(res.GetMessage(), "needs a reboot") {
		t.Errorf("%v", res)
	}
	r.write("devices: {mock-0: {fault: {recovery: reset}, reset: {result: failed, message: no luck}}}")
	if res := reset(); res.GetRecovered() || res.GetMessage() != "no luck" {
		t.Errorf("%v", res)
	}
}
