package manifest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/inventory"
)

// looking is a manifest with an ability and conditions under which the core looks.
func looking(inUse, ability, look string) string {
	return strings.Replace(plain, "inUse: core", "inUse: "+inUse+"\nabilities: ["+ability+"]\nlook: {"+look+"}", 1)
}

// Verifies that the settings decide when the core looks, beside what inUse says of resets.
func TestLook(t *testing.T) {
	prepare := looking("core", "prepare", "report: {setting: none, is: [report, both]}, fail: [{setting: none, is: [fail, both]}, {setting: kinds}]")
	reset := looking("backend", "reset", "reset: {setting: none, is: [pci]}")
	for _, c := range []struct {
		manifest, settings string
		want               inventory.Look
	}{
		{prepare, "", inventory.Look{Reset: true}},
		{prepare, `{"none": "no"}`, inventory.Look{Reset: true}},
		{prepare, `{"none": "report"}`, inventory.Look{Reset: true, Report: true}},
		{prepare, `{"none": "fail"}`, inventory.Look{Reset: true, Fail: true}},
		{prepare, `{"none": "both"}`, inventory.Look{Reset: true, Report: true, Fail: true}},
		{prepare, `{"kinds": [{}]}`, inventory.Look{Reset: true, Fail: true}},
		{reset, "", inventory.Look{}},
		{reset, `{"none": "tool"}`, inventory.Look{}},
		{reset, `{"none": "pci"}`, inventory.Look{Reset: true}},
	} {
		m, err := Load(write(t, c.manifest))
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Look(json.RawMessage(c.settings)); got != c.want {
			t.Errorf("%s, settings %s: %+v, want %+v", m.InUse, c.settings, got, c.want)
		}
	}
}
