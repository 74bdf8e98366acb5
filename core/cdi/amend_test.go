package cdi_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/inventory"
)

func more(value string) inventory.Edits {
	return inventory.Edits{Env: inventory.Named(map[string]string{"MORE": value})}
}

// An amendment is on disk when Amend returns, stays over Publish, a change of
// the device and a restart, and goes with Unamend.
func TestAmendmentLastsUntilItIsTakenBack(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	one := []*inventory.Device{device("a", "1"), device("b", "1")}
	plain := qualified(t, s.Publish(one, nobody), "a")
	check := func(when, want string) {
		t.Helper()
		if got := env(t, dir, plain); got != want {
			t.Errorf("%s: env %q, want %q", when, got, want)
		}
		if got := env(t, dir, "mock.accelmux.io/gpu=b"); got != "VALUE=1" {
			t.Errorf("%s: the other device has %q", when, got)
		}
	}
	if err := s.Amend(key("a"), more("1")); err != nil {
		t.Fatal(err)
	}
	check("amended", "MORE=1 VALUE=1")
	if err := s.Amend(key("a"), more("2")); err != nil {
		t.Fatal(err)
	}
	check("amended again", "MORE=2 VALUE=1")
	if got := qualified(t, s.Publish(one, everyone), "a"); got != plain {
		t.Errorf("name %s, want %s", got, plain)
	}
	check("published", "MORE=2 VALUE=1")
	s = open(t, dir)
	check("restarted", "MORE=2 VALUE=1")
	two := []*inventory.Device{device("a", "2"), device("b", "1")}
	derived := qualified(t, s.Publish(two, everyone), "a")
	check("redefined", "MORE=2 VALUE=1")
	if got := env(t, dir, derived); got != "VALUE=2" {
		t.Errorf("the new definition has %q", got)
	}
	amended := 0
	for _, d := range s.Definitions() {
		if d.Amended {
			amended++
		}
	}
	if amended != 1 {
		t.Errorf("%d amended definitions, want 1", amended)
	}
	s = open(t, dir)
	if err := s.Unamend(key("a")); err != nil {
		t.Fatal(err)
	}
	check("taken back", "VALUE=1")
	s.Publish(two, nobody)
	s.Publish(two, nobody)
	if diff := cmp.Diff([]string{gpuFile}, files(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// Of two edits of the same thing, the amendment's counts.
func TestAmendmentOverrides(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	d := device("a", "1")
	d.Edits.Env = append(inventory.Named(map[string]string{"KEEP": "1"}), d.Edits.Env...)
	d.Edits.DeviceNodes = []inventory.DeviceNode{{Path: "/dev/x", HostPath: "/dev/null", Permissions: "r"}}
	d.Edits.Mounts = []inventory.Mount{{HostPath: "/etc", ContainerPath: "/m"}}
	d.Edits.AdditionalGIDs = []uint32{2}
	name := qualified(t, s.Publish([]*inventory.Device{d}, nobody), "a")
	err := s.Amend(key("a"), inventory.Edits{
		Env:            inventory.Named(map[string]string{"VALUE": "2"}),
		DeviceNodes:    []inventory.DeviceNode{{Path: "/dev/x", HostPath: "/dev/zero", Permissions: "rw"}},
		Mounts:         []inventory.Mount{{HostPath: "/tmp", ContainerPath: "/m"}},
		AdditionalGIDs: []uint32{1, 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	spec, err := inject(t, dir, name)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(spec.Process.Env, " ")
	for _, r := range spec.Linux.Resources.Devices {
		got += " " + r.Access
	}
	for _, m := range spec.Mounts {
		got += " " + m.Source
	}
	if want := "KEEP=1 VALUE=2 rw /tmp"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if diff := cmp.Diff([]uint32{1, 2}, spec.Process.User.AdditionalGids); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

func TestAmendRefuses(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	s.Publish([]*inventory.Device{device("a", "1")}, nobody)
	before := readSpec(t, filepath.Join(dir, gpuFile))
	if err := s.Amend(key("unknown"), more("1")); err == nil {
		t.Error("a device without a definition was amended")
	}
	if err := s.Unamend(key("unknown")); err != nil {
		t.Error(err)
	}
	if err := s.Amend(key("a"), more("\x7f")); err == nil {
		t.Error("edits that CDI cannot carry were accepted")
	}
	if diff := cmp.Diff(before, readSpec(t, filepath.Join(dir, gpuFile))); diff != "" {
		t.Errorf("the spec changed (-before +after):\n%s", diff)
	}
	if err := s.Amend(key("a"), more("1")); err != nil {
		t.Fatal(err)
	}
	if err := s.Amend(key("a"), inventory.Edits{}); err != nil {
		t.Fatal(err)
	}
	if got := env(t, dir, "mock.accelmux.io/gpu=a"); got != "VALUE=1" {
		t.Errorf("env %q", got)
	}
}
