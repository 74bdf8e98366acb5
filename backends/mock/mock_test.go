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
	if p := inv.GetProblems()[0]; !strings.Contains(p, r.file) || !strings.Contains(p, `unknown field "devices.mock-0.falt"`) || !strings.Contains(p, "last good") {
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

// The numbers of IDs go on over groups, and what is unplugged takes its partitions and the links to it
// along.
func TestDevices(t *testing.T) {
	for name, tc := range map[string]struct{ settings, scenario, want string }{
		"groups":     {`{"devices": [{"count": 2}, {"class": "fpga"}]}`, "", "mock-0 mock-1 mock-2"},
		"links":      {`{"count": 3, "links": {"topology": "ring"}}`, "devices: {mock-1: {unplugged: true}}", "mock-0>mock-2 mock-2>mock-0"},
		"partitions": {`{"count": 2, "partitions": {"count": 1, "listParent": true}}`, "devices: {mock-1: {unplugged: true}}", "mock-0 mock-0-p0"},
	} {
		cfg, err := parseSettings([]byte(tc.settings))
		if err != nil {
			t.Fatal(err)
		}
		s, err := parseScenario([]byte(tc.scenario))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range newView(cfg, &player{scenario: s}, playing{entries: s.Devices}).inventory().Devices {
			text := d.GetId()
			for _, l := range d.GetLinks() {
				text += ">" + l.GetPeerId()
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %q, want %s", name, got, tc.want)
		}
	}
}
