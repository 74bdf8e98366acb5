package cdi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/inventory"
)

// Limits of the package.
const (
	maxEdits = 64 << 10
	maxSpecs = 8 << 20
)

// sized returns a device whose edits have somewhat more than size bytes.
func sized(id string, size int) *inventory.Device { return device(id, strings.Repeat("x", size)) }

// Verifies that a device with too large edits costs that device, and no other.
func TestEditsAreBounded(t *testing.T) {
	s := open(t, t.TempDir())
	names := s.Publish([]*inventory.Device{sized("a", maxEdits), sized("b", maxEdits/2)}, nobody)
	if _, err := names.Qualified(key("a")); err == nil || !strings.Contains(err.Error(), "at most 65536 are allowed") {
		t.Errorf("a device with large edits: %v", err)
	}
	qualified(t, names, "b")
}

// Verifies that the specs of a backend are bounded over all its classes, that defined devices
// stay defined, and that others follow when there is room.
func TestSpecsAreBounded(t *testing.T) {
	const size, fitting = 60 << 10, maxSpecs / (61 << 10)
	dir := t.TempDir()
	s := open(t, dir)
	var devices []*inventory.Device
	for i := range 2 * fitting {
		d := sized(fmt.Sprintf("d%04d", i), size)
		d.Class = []string{"gpu", "mig"}[i%2]
		devices = append(devices, d)
	}
	defined := func(devices []*inventory.Device) map[string]bool {
		names, all := s.Publish(devices, nobody), map[string]bool{}
		for _, d := range devices {
			if _, err := names.Qualified(d.Key); err == nil {
				all[d.ID] = true
			} else if !strings.Contains(err.Error(), "would have more than 8388608 bytes") {
				t.Error(err)
			}
		}
		return all
	}
	before := defined(devices[fitting/2:])
	total := int64(0)
	for _, name := range files(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if len(before) < fitting || total > maxSpecs*11/10 {
		t.Fatalf("%d devices are defined in %d bytes, want %d at least", len(before), total, fitting)
	}
	all := defined(devices)
	for id := range before {
		if !all[id] {
			t.Errorf("%s is not defined any more, as others came", id)
		}
	}
	if rest := defined(devices[:fitting]); len(rest) != fitting {
		t.Errorf("%d devices are defined, want all %d that are left", len(rest), fitting)
	}
}
