package manifest

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/accelmux/accelmux/core/inventory"
)

// Verifies what settings leave of the classes, values and numbers of a manifest.
func TestLimits(t *testing.T) {
	m, err := Load(write(t, `apiVersion: backend.accelmux.io/v1
kind: Backend
name: x
vendor: X
version: 1.0.0
protocols: [1]
classes:
  - gpu
  - {name: part, when: [{setting: split, not: [none]}, {setting: all}], potential: {setting: split, is: [dynamic, late]}, preparedFor: {setting: shares, when: {setting: all}}}
  - usb
attributes:
  - {name: type, kind: string, values: [gpu, {setting: "kinds[*].name", default: ""}], about: it}
  - {name: profile, kind: string, classes: [part, {name: gpu, when: {setting: split, is: [whole]}}], about: it}
labels: [x.org]
inUse: core
presets: {stick: {class: usb}, drive: {class: usb}}
settings:
  type: object
  properties:
    split: {type: string, default: none}
    all: {type: boolean}
    shares: {type: integer}
    kinds: {type: array, items: {type: object, properties: {name: {type: string}, class: {type: string}}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for settings, want := range map[string]inventory.Limits{
		"": {
			Presets: []string{"drive", "stick"}, Absent: map[string]string{"part": "another split, or all", "usb": "presets: [drive] or [stick]"},
			Values: map[string][]string{"type": {"gpu"}}, Owners: map[string]inventory.Owners{"profile": {Takes: "another split, or all, or split: whole"}},
		},
		`{"split": "late", "shares": 4, "kinds": [{"name": "a", "class": "usb"}]}`: {
			Potential: []string{"part"}, Values: map[string][]string{"type": {"gpu", "a"}},
			Owners: map[string]inventory.Owners{"profile": {Classes: []string{"part"}, Takes: "split: whole"}},
		},
		`{"all": true, "shares": 4, "kinds": [{"name": "a", "class": "gpu"}]}`: {
			Absent: map[string]string{"usb": "presets: [drive] or [stick]"}, PreparedFor: map[string]int{"part": 4}, Values: map[string][]string{"type": {"gpu", "a"}},
			Owners: map[string]inventory.Owners{"profile": {Classes: []string{"part"}, Takes: "split: whole"}},
		},
	} {
		want.Labels = []string{"x.org"}
		got := *m.Limits(json.RawMessage(settings))
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: -want +got\n%s", settings, diff)
		}
	}
}
