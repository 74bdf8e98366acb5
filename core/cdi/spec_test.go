package cdi

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
	cdi "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/accelmux/accelmux/core/inventory"
)

// randomDefinitions draws definitions of which some edits are common to all.
func randomDefinitions(t *rapid.T) definitions {
	defs := definitions{}
	hooks := rapid.IntRange(0, 2).Draw(t, "hooks of all")
	for i := range rapid.IntRange(1, 4).Draw(t, "devices") {
		var e inventory.Edits
		if rapid.Bool().Draw(t, "variable") {
			e.Env = inventory.Named(map[string]string{"A": rapid.SampledFrom([]string{"<1>", "2\n\"", "\\u2028\u2028", "é:😀"}).Draw(t, "value"), "B": "1"})
		}
		if rapid.Bool().Draw(t, "node") {
			e.DeviceNodes = []inventory.DeviceNode{{Path: "/dev/a", HostPath: "/dev/b", Permissions: "rw"}}
		}
		for _, name := range []string{"/x", "/y"}[:rapid.IntRange(0, 2).Draw(t, "mounts")] {
			e.Mounts = append(e.Mounts, inventory.Mount{HostPath: name, ContainerPath: name})
		}
		for h := range hooks {
			e.Hooks = append(e.Hooks, inventory.OCIHook{Name: "poststop", Path: fmt.Sprint("/bin/shared", h)})
		}
		if rapid.Bool().Draw(t, "hook") {
			e.Hooks = append(e.Hooks, inventory.OCIHook{Name: "poststop", Path: fmt.Sprint("/bin/own", i)})
		}
		if e.Empty() || rapid.Bool().Draw(t, "group") {
			e.AdditionalGIDs = []uint32{7}
		}
		text, err := encodeEdits(toCDI(e))
		if err != nil {
			t.Fatal(err)
		}
		defs[rapid.SampledFrom([]string{"dev-", "0000:"}).Draw(t, "ID")+fmt.Sprint(i)] = text
	}
	return defs
}

// Verifies that a spec is read as it was written, and is valid for the CDI library with all
// its devices.
func TestSpecIsReadAsWritten(t *testing.T) {
	k := kind{backend: "mock", class: "gpu"}
	path := filepath.Join(t.TempDir(), k.fileName())
	rapid.Check(t, func(t *rapid.T) {
		defs := randomDefinitions(t)
		content, err := defs.encode(k)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, specMode); err != nil {
			t.Fatal(err)
		}
		f, err := loadFile(path)
		if err != nil || f.kind != k || f.outdated || !f.defs.same(defs) {
			t.Fatalf("read: %+v, %v\n%s", f, err, content)
		}
		spec, err := cdi.ReadSpec(path, 0)
		if err != nil {
			t.Fatalf("%v\n%s", err, content)
		}
		for name := range defs {
			if spec.GetDevice(name) == nil {
				t.Fatalf("%s is missing in\n%s", name, content)
			}
		}
	})
}

// Verifies that a changed spec is damaged, or is written again.
func TestChangedSpec(t *testing.T) {
	k := kind{backend: "mock", class: "gpu"}
	path := filepath.Join(t.TempDir(), k.fileName())
	content, err := definitions{"dev-0": `{"env":["A=1"]}`, "dev-1": `{"env":["A=2"],"additionalGids":[7]}`}.encode(k)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`"containerEdits"`, `"containerEdit"`}, {`"dev-1"`, `"dev-0"`}, {`"dev-0"`, `"dev 0"`}, {"mock", "knock"}, {`"A=`, `"=`},
		{`"0.`, `"9.`}, {"}\n", "}\n}"}, {"{", "["}, {"[7]", "[]"},
	} {
		changed := bytes.Replace(content, []byte(change[0]), []byte(change[1]), 1)
		if bytes.Equal(changed, content) {
			t.Errorf("%q is not in %s", change[0], content)
		}
		if err := os.WriteFile(path, changed, specMode); err != nil {
			t.Fatal(err)
		}
		if f, err := loadFile(path); err == nil && !f.outdated {
			t.Errorf("accepted as it is:\n%s", changed)
		}
	}
}

// Verifies that a Publish of equal definitions returns the same names without a plan, and that
// another owner's file with the same device ends that.
func TestSettledPublish(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	device := func(id, env string) *inventory.Device {
		return &inventory.Device{Key: inventory.Key{Backend: "mock", ID: id}, Class: "gpu", Edits: inventory.Edits{Env: inventory.Named(map[string]string{"A": env})}}
	}
	free := func(inventory.Key) bool { return false }
	first := s.Publish([]*inventory.Device{device("a", "1"), device("b", "1")}, free)
	if s.Publish([]*inventory.Device{device("a", "1"), device("b", "1")}, free) != first {
		t.Error("equal definitions have other names")
	}
	devices := []*inventory.Device{device("a", "1"), device("b", "1")}
	settled := s.Publish(devices, free)
	foreign := `{"cdiVersion":"0.6.0","kind":"mock.accelmux.io/gpu","devices":[{"name":"a","containerEdits":{"env":["A=1"]}}]}`
	if err := os.WriteFile(filepath.Join(dir, "other.json"), []byte(foreign), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Publish(devices, free).Qualified(devices[0].Key); err == nil {
		t.Error("a conflict is not noticed")
	}
	if _, err := settled.Qualified(devices[0].Key); err != nil {
		t.Error("earlier names were changed")
	}
}

// Verifies that backends and classes with dashes do not share a file.
func TestKindsHaveFilesOfTheirOwn(t *testing.T) {
	for _, k := range []kind{{"a-b", "c"}, {"a", "b-c"}, {"a", "c"}} {
		if got, ok := kindOfFile(k.fileName()); !ok || got != k {
			t.Errorf("%s is the file of %s, want %s", k.fileName(), got, k)
		}
	}
}
