package cdi_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/inventory"
)

// Verifies that edits are checked against the host when a definition is to be written, of a
// device and of a holder, that a refusal costs that device alone, and what is held stays.
func TestWhatIsWrittenIsCheckedOnTheHost(t *testing.T) {
	refused, checks := "", 0
	dir := t.TempDir()
	s := openWith(t, cdi.Options{Dir: dir, OnHost: func() inventory.OnHost {
		return func(name string, e inventory.Edits) (inventory.Edits, error) {
			checks++
			for _, value := range e.Env.All() {
				if value == refused && name == backend {
					return inventory.Edits{}, errors.New("leads elsewhere")
				}
			}
			return e, nil
		}
	}})
	refused = "1"
	names := s.Publish([]*inventory.Device{device("a", "1"), device("b", "2")}, nobody)
	if _, err := names.Qualified(key("a")); err == nil || !strings.Contains(err.Error(), "device mock/a is not defined for CDI: leads elsewhere") {
		t.Errorf("a: %v", err)
	}
	gone(t, dir, "mock.accelmux.io/gpu=a")
	if got := env(t, dir, qualified(t, names, "b")); got != "VALUE=2" {
		t.Errorf("b gets %q", got)
	}
	refused, checks = "", 0
	a := qualified(t, s.Publish([]*inventory.Device{device("a", "1"), device("b", "2")}, nobody), "a")
	if got := env(t, dir, a); got != "VALUE=1" || checks != 1 {
		t.Errorf("a gets %q after %d checks, want 1, of what is new", got, checks)
	}
	refused = "3"
	names = s.Publish([]*inventory.Device{device("a", "3"), device("b", "2")}, everyone)
	if _, err := names.Qualified(key("a")); err == nil {
		t.Error("a changed definition is not checked")
	}
	if got := env(t, dir, a); got != "VALUE=1" {
		t.Errorf("the holder of a has %q", got)
	}
	refused = "one"
	if err := s.Define([]cdi.HolderDefinition{unitsOf("two", "b"), unitsOf("one", "a")}, alive()); err == nil || !strings.Contains(err.Error(), "leads elsewhere") {
		t.Errorf("a holder's definition: %v", err)
	}
	gone(t, dir, unitsOf("two", "b").Name)
	define(t, s, unitsOf("two", "b"))
}

// Verifies that definitions whose file another process removed are checked before they are written
// again; that those that are refused are withheld, keep their names and are written when they are allowed
// again; and that what is on disk is not checked again.
func TestWhatIsWrittenAgainIsCheckedOnTheHost(t *testing.T) {
	dir := t.TempDir()
	var refused []string
	s := openWith(t, cdi.Options{Dir: dir, OnHost: func() inventory.OnHost {
		return func(_ string, e inventory.Edits) (inventory.Edits, error) {
			for _, m := range e.Mounts {
				if slices.Contains(refused, m.HostPath) && !m.Writable {
					return e, fmt.Errorf("%s leads elsewhere", m.HostPath)
				}
			}
			return e, nil
		}
	}})
	mounts := func(id, hostPath string) *inventory.Device {
		d := device(id, id)
		d.Edits.Mounts = []inventory.Mount{{HostPath: hostPath, ContainerPath: "/lib"}}
		return d
	}
	devices := []*inventory.Device{mounts("a", "/lib/a"), mounts("b", "/lib/b")}
	names := s.Publish(devices, everyone)
	a, b := qualified(t, names, "a"), qualified(t, names, "b")
	own := unitsOf("own", "a::0")
	own.Edits = append(own.Edits, inventory.Edits{Mounts: []inventory.Mount{{HostPath: "/lib/own", ContainerPath: "/own"}}})
	define(t, s, own)

	refused = []string{"/lib/a", "/lib/own"}
	wantWithheld := func(when string, want ...string) {
		t.Helper()
		var got []string
		for _, w := range s.Withheld() {
			if got = append(got, w.Name); !strings.Contains(w.Err.Error(), "leads elsewhere") || w.Device != key("a") {
				t.Errorf("%s: %+v", when, w)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: withheld are %q, want %q", when, got, want)
		}
		for _, name := range want {
			gone(t, dir, name)
		}
	}
	s.Publish(append(devices, mounts("c", "/lib/c")), everyone)
	define(t, s, unitsOf("further", "a::1"), own.Name)
	wantWithheld("while all is on disk")
	env(t, dir, a, own.Name)

	if err := removeFiles(dir); err != nil {
		t.Fatal(err)
	}
	names = s.Publish(devices, everyone)
	wantWithheld("after the removal", a, own.Name)
	env(t, dir, b, unitsOf("further", "a::1").Name)
	if _, err := names.Qualified(key("a")); err == nil || !strings.Contains(err.Error(), "device mock/a is not defined for CDI: /lib/a leads elsewhere") {
		t.Errorf("new containers get a: %v", err)
	}
	// The name of a running container does not become that of other edits.
	if got := qualified(t, s.Publish([]*inventory.Device{mounts("a", "/lib/other"), devices[1]}, everyone), "a"); got == a {
		t.Errorf("%s is redefined", a)
	}
	wantWithheld("with other edits", a, own.Name)
	refused = nil
	s.Publish(devices, everyone)
	wantWithheld("when it is allowed again")
	if got := env(t, dir, a, own.Name); got != "VALUE=a MORE=own" {
		t.Errorf("a container that restarts gets %q", got)
	}

	refused = []string{"/lib/a", "/lib/b", "/lib/other", "/lib/own", "/lib/c"}
	if err := removeFiles(dir); err != nil {
		t.Fatal(err)
	}
	s.Publish(devices, holding("b"))
	gone(t, dir, b)
	if len(files(t, dir)) != 0 {
		t.Errorf("files %q", files(t, dir))
	}
}

// Verifies that a definition that an earlier run stored is checked before it is written, and not if
// it is on disk.
func TestStoredDefinitionIsCheckedOnTheHost(t *testing.T) {
	dir := t.TempDir()
	var refused error
	opts := cdi.Options{Dir: dir, OnHost: func() inventory.OnHost {
		return func(_ string, e inventory.Edits) (inventory.Edits, error) { return e, refused }
	}}
	d := unitsOf("one", "a")
	content, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	stored := cdi.HolderDefinition{Name: d.Name, Device: d.Device, Content: content}
	s := openWith(t, opts)
	refused = errors.New("leads elsewhere")
	if err := s.Define([]cdi.HolderDefinition{stored}, alive()); err == nil || !strings.Contains(err.Error(), "device mock/a is not defined for CDI: leads elsewhere") {
		t.Errorf("a stored definition: %v", err)
	}
	gone(t, dir, d.Name)
	refused = nil
	define(t, s, stored)
	refused = errors.New("leads elsewhere")
	define(t, openWith(t, opts), stored)
	if got := env(t, dir, d.Name); got != "MORE=one" {
		t.Errorf("env %q", got)
	}
}
