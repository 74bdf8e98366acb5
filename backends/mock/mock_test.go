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
