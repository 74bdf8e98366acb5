package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Verifies that the manifest of each backend can be used, with the rights of settings without anything.
func TestBackends(t *testing.T) {
	files, err := filepath.Glob("../../backends/*/manifest.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d manifests: %v", len(files), err)
	}
	for _, file := range files {
		m, err := Load(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := m.Rights(nil); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const plain = `apiVersion: backend.accelmux.io/v1
kind: Backend
name: x
vendor: X
version: 1.0.0
protocols: [1]
classes: [gpu]
inUse: core
settings:
  type: object
  properties:
    dir: {type: string, default: /opt/x}
    none: {type: string}
    kinds: {type: array, items: {type: object, properties: {path: {type: string}, names: {type: array, items: {type: string}}}}}
`

// Verifies that what is wrong with a manifest is reported with its line, the field and what is meant.
func TestErrors(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"empty":                  {"", "must start with apiVersion: backend.accelmux.io/v1 and kind: Backend"},
		"an unknown field":       {plain + "proces: []\n", `:15:1: proces: unknown field "proces"; did you mean "process"?`},
		"twice":                  {plain + "name: y\n", ":15:1: name: set twice, first on line 3"},
		"a wrong type":           {plain + "hardware: 1\n", ":15:1: hardware: must be a list"},
		"a wrong version":        {strings.Replace(plain, "1.0.0", "one", 1), ":5:1: version:"},
		"an unknown ability":     {plain + "abilities: [rest]\n", ":15:13: abilities[0]: must be one of"},
		"nobody asked":           {strings.Replace(plain, "inUse: core\n", "", 1), "inUse: is required: who looks before a reset"},
		"looks anyway":           {looking("core", "reset", "reset: {setting: none}"), ":10:8: look.reset: is only for inUse: backend"},
		"looks for nothing":      {looking("none", "prepare", "fail: {setting: none}"), ":10:8: look.fail: has the agent look for processes that have a node open"},
		"looks before no reset":  {looking("backend", "prepare", "reset: {setting: none}"), ":10:8: look.reset: has the agent look before the program's reset, which is not among the abilities"},
		"looks at no container":  {looking("core", "reset", "report: {setting: none}"), ":10:8: look.report: has the agent look before the program's prepare"},
		"looks never":            {looking("core", "prepare", "fail: []"), ":10:8: look.fail: must have a condition"},
		"looks at no setting":    {looking("core", "prepare", "report: {setting: dri}"), "look.report.setting: the schema"},
		"looks at what":          {looking("core", "prepare", "prepare: {setting: none}"), ":10:8: look.prepare: unknown field"},
		"who looks":              {strings.Replace(plain, "core", "kernel", 1), ":8:1: inUse: must be one of core, backend, none"},
		"no reason":              {plain + "process:\n  - read: [/sys/**]\n", ":16:5: process[0].why: must be 1 to"},
		"no default":             {plain + "process:\n  - why: it\n    read: [{setting: none}]\n", "process[0].read[0]: none has no default"},
		"no such setting":        {plain + "process:\n  - why: it\n    read: [{setting: dri}]\n", `the schema of the settings does not have dri`},
		"a condition's setting":  {plain + "process:\n  - why: it\n    when: {setting: dri}\n", `:17:12: process[0].when.setting: the schema`},
		"all":                    {plain + "process:\n  - why: it\n    read: [/**]\n", ":17:12: process[0].read[0]: \"/**\" stands for too much"},
		"three wildcards":        {plain + "process:\n  - why: it\n    read: [/a*/b*/c*]\n", "has 3 wildcards"},
		"never, by a pattern":    {plain + "containers:\n  - why: it\n    devices: [/dev/s*]\n", "may not be given to any backend"},
		"never, a socket":        {plain + "process:\n  - why: it\n    write: [/var/run/containerd/containerd.sock]\n", "may not be given to any backend"},
		"never, what root runs":  {plain + "process:\n  - why: it\n    write: [/etc/udev/rules.d/9.rules]\n", "may not be given to any backend"},
		"never, a variable":      {plain + "containers:\n  - why: it\n    env: [LD_PRELOAD]\n", "may not be given to any backend"},
		"root's group":           {plain + "containers:\n  - why: it\n    gids: [0]\n", "root's group"},
		"hardware":               {plain + "hardware: [{device: '0001', name: X}]\n", "hardware[0]: must have a vendor or a class"},
		"a file outside":         {strings.SplitN(plain, "settings:", 2)[0] + "settings: {file: ../x.json}\n", "must be the plain name"},
		"a class twice":          {strings.Replace(plain, "[gpu]", "[gpu, {name: gpu, when: {setting: none}}]", 1), ":7:16: classes[1]: gpu is there twice"},
		"a class's setting":      {strings.Replace(plain, "[gpu]", "[{name: gpu, when: {setting: dri}}]", 1), "classes[0].when.setting: the schema"},
		"a class's number":       {strings.Replace(plain, "[gpu]", "[{name: gpu, preparedFor: {setting: dri}}]", 1), "classes[0].preparedFor.setting: the schema"},
		"a label":                {plain + "labels: [nvidia.com/]\n", `:15:10: labels[0]: "nvidia.com/" is not the domain of a label`},
		"values of a number":     {plain + "attributes: [{name: a, kind: int, about: a, values: [a]}]\n", "attributes[0].values: only an attribute of the kind string has values"},
		"values of no setting":   {plain + "attributes: [{name: a, kind: string, about: a, values: [{setting: dri, default: ''}]}]\n", "attributes[0].values[0].setting: the schema"},
		"an attribute's class":   {plain + "attributes: [{name: a, about: a, classes: [gqu]}]\n", `attributes[0].classes[0]: "gqu" is none of the classes; did you mean "gpu"?`},
		"attributes of one name": {plain + "attributes: [{name: a, about: a}, {name: a, about: b}]\n", "attributes[1].name: a is there twice"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Load(write(t, tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
