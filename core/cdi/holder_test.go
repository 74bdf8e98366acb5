package cdi_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/inventory"
)

const holderFile = "accelmux-mock-holder.json"

func more(value string) inventory.Edits {
	return inventory.Edits{Env: inventory.Named(map[string]string{"MORE": value})}
}

// unitsOf is the definition of the holder of these units of device a.
func unitsOf(value string, units ...string) cdi.HolderDefinition {
	return cdi.HolderDefinition{
		Name: cdi.HolderName(key("a"), "example.com/gpu", units), Device: key("a"), Edits: []inventory.Edits{more(value)},
	}
}

// define defines a holder; those of the other names are live.
func define(t *testing.T, s *cdi.Store, d cdi.HolderDefinition, live ...string) {
	t.Helper()
	if err := s.Define([]cdi.HolderDefinition{d}, alive(live...)); err != nil {
		t.Fatal(err)
	}
}

func alive(names ...string) func(string) bool {
	return func(name string) bool { return strings.Contains(strings.Join(names, " "), name) }
}

// Verifies that two holders of a device have names of their own, which follow from their
// units alone.
func TestHolderName(t *testing.T) {
	name := cdi.HolderName(key("a"), "example.com/gpu", []string{"a::0", "b"})
	if !strings.HasPrefix(name, "mock.accelmux.io/holder=a::") || name != cdi.HolderName(key("a"), "example.com/gpu", []string{"b", "a::0"}) {
		t.Errorf("name %s", name)
	}
	for _, other := range []string{
		cdi.HolderName(key("a"), "example.com/gpu", []string{"a::1", "b"}), cdi.HolderName(key("a"), "example.com/gpu", []string{"a::0"}),
		cdi.HolderName(key("a"), "example.com/npu", []string{"a::0", "b"}), cdi.HolderName(key("a"), "example.com/gpu", []string{"a::0b"}),
	} {
		if other == name {
			t.Errorf("%s is the name of two holders", name)
		}
	}
}

// Verifies that each holder of a device gets its own edits beside the device's, that a
// definition stays over Publish and a restart while its holder lives, and that it is gone
// with it.
func TestHolderDefinitions(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	devices := []*inventory.Device{device("a", "1")}
	plain := qualified(t, s.Publish(devices, nobody), "a")
	first, second := unitsOf("one", "a::0"), unitsOf("two", "a::1")
	define(t, s, first)
	define(t, s, second, first.Name)
	for range 2 {
		s.Publish(devices, everyone)
		for _, d := range []cdi.HolderDefinition{first, second} {
			if got := env(t, dir, plain, d.Name); got != "VALUE=1 MORE="+map[string]string{first.Name: "one", second.Name: "two"}[d.Name] {
				t.Errorf("env %q", got)
			}
		}
		if got := env(t, dir, plain); got != "VALUE=1" {
			t.Errorf("another container gets %q", got)
		}
		s = open(t, dir)
	}
	define(t, s, unitsOf("three", "a::0"), first.Name, second.Name)
	if got := env(t, dir, first.Name); got != "MORE=three" {
		t.Errorf("defined again: %q", got)
	}
	define(t, s, unitsOf("both", "a::0", "a::1"), second.Name)
	gone(t, dir, first.Name)
	if err := s.Undefine([]inventory.Key{key("a"), key("b")}, alive(second.Name)); err != nil {
		t.Fatal(err)
	}
	if got := env(t, dir, second.Name); got != "MORE=two" {
		t.Errorf("a live holder has %q", got)
	}
	s.Publish(devices, nobody)
	if diff := cmp.Diff([]string{gpuFile}, files(t, dir)); diff != "" {
		t.Errorf("files when nothing is held (-want +got):\n%s", diff)
	}
}

// Verifies that the edits of several devices are joined, that the later of two of the same
// thing counts, also over the device's own, and that a holder without edits has a valid
// definition.
func TestHolderEdits(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	d := device("a", "1")
	d.Edits.Mounts = []inventory.Mount{{HostPath: "/etc", ContainerPath: "/m"}}
	plain := qualified(t, s.Publish([]*inventory.Device{d}, nobody), "a")
	own := unitsOf("one", "a")
	own.Edits = append(own.Edits, inventory.Edits{
		Env:            inventory.Named(map[string]string{"MORE": "two", "VALUE": "2"}),
		Mounts:         []inventory.Mount{{HostPath: "/tmp", ContainerPath: "/m"}},
		AdditionalGIDs: []uint32{2, 1, 2},
	})
	define(t, s, own)
	spec, err := inject(t, dir, plain, own.Name)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(spec.Process.Env, " ")
	for _, m := range spec.Mounts {
		got += " " + m.Source
	}
	if want := "VALUE=2 MORE=two /tmp"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if diff := cmp.Diff([]uint32{1, 2}, spec.Process.User.AdditionalGids); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	own.Edits = nil
	define(t, s, own)
	if got := env(t, dir, own.Name); !strings.HasPrefix(got, "ACCELMUX_HOLDER=") {
		t.Errorf("without edits: %q", got)
	}
}

// Verifies that edits that are too large change nothing.
func TestHolderEditsAreRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	define(t, s, unitsOf("one", "a"))
	before := readSpec(t, filepath.Join(dir, holderFile))
	if err := s.Define([]cdi.HolderDefinition{unitsOf(strings.Repeat("x", maxEdits), "a")}, alive()); err == nil || !strings.Contains(err.Error(), "at most 65536 are allowed") {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff(before, readSpec(t, filepath.Join(dir, holderFile))); diff != "" {
		t.Errorf("the spec changed (-before +after):\n%s", diff)
	}
	if err := s.Close(nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Define([]cdi.HolderDefinition{unitsOf("two", "a")}, alive()); err == nil {
		t.Error("a closed store defines a holder")
	}
}

// Verifies that the device and the claim are found in a claim's CDI name, also if the ID ends in a
// colon, and nothing in other names.
func TestParseHolderName(t *testing.T) {
	for _, id := range []string{"GPU-0", "a:", "0000:01:00.0"} {
		if device, of := cdi.ParseHolderName(cdi.ClaimName(key(id), "uid-1")); device != key(id) || of != "uid-1" {
			t.Errorf("%s: %v, %s", id, device, of)
		}
	}
	for _, name := range []string{"", "mock.accelmux.io/gpu=a::b", "mock.accelmux.io/holder=a", "nvidia.com/holder=a::b", "mock.accelmux.io/holder"} {
		if device, of := cdi.ParseHolderName(name); device != (inventory.Key{}) || of != "" {
			t.Errorf("%q: %v, %s", name, device, of)
		}
	}
}

// Verifies that the definitions of a claim's devices are written at once, all or none.
func TestDefineSeveral(t *testing.T) {
	writes := 0
	s := openWith(t, cdi.Options{Dir: t.TempDir(), Disk: checkpoint.Writer{Before: func(op checkpoint.Op, _ string) error {
		if op == checkpoint.OpRename {
			writes++
		}
		return nil
	}}})
	definition := func(id, value string) cdi.HolderDefinition {
		return cdi.HolderDefinition{Name: cdi.ClaimName(key(id), "uid"), Device: key(id), Edits: []inventory.Edits{{Env: inventory.Named(map[string]string{"VALUE": value})}}}
	}
	err := s.Define([]cdi.HolderDefinition{definition("a", "1"), definition("b", "2")}, alive())
	if err != nil || writes != 1 || len(s.Definitions()) != 2 {
		t.Errorf("%v, %d writes, defined are %v", err, writes, s.Definitions())
	}
	if err := s.Define([]cdi.HolderDefinition{definition("c", "1"), definition("d", strings.Repeat("x", 1<<20))}, alive()); err == nil || !strings.Contains(err.Error(), "mock/d") || len(s.Definitions()) != 2 {
		t.Errorf("one that is too large: %v, defined are %v", err, s.Definitions())
	}
}
