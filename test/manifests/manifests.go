// Package manifests has what the core does with a manifest for tests of backends, which cannot import the core.
package manifests

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/manifest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// loaded are manifests by file: one with many presets takes longer to load than most tests.
var loaded sync.Map

// Load loads a manifest of the source tree. Callers must not change it.
func Load(tb testing.TB, file string) *manifest.Manifest {
	tb.Helper()
	if m, ok := loaded.Load(file); ok {
		return m.(*manifest.Manifest) //nolint:forcetypeassert // there are no others
	}
	m, err := manifest.Load(file)
	if err != nil {
		tb.Fatal(err)
	}
	loaded.Store(file, m)
	return m
}

// Merged returns settings with the presets of a manifest as plain kinds.
func Merged(tb testing.TB, m *manifest.Manifest, settings string) json.RawMessage {
	tb.Helper()
	merged, err := m.Merge(json.RawMessage(settings))
	if err != nil {
		tb.Fatal(err)
	}
	return merged
}

// Check returns a function that checks settings, with their presets merged, as the core does before it starts a backend.
func Check(tb testing.TB, m *manifest.Manifest) func(json.RawMessage) error {
	tb.Helper()
	ctx := tb.Context() // a fuzz target must not ask for it
	return func(settings json.RawMessage) error {
		merged, err := m.Merge(settings)
		if err != nil {
			return err
		}
		return m.Check(ctx, merged)
	}
}

// Declared returns a function that fails the test for each attribute and capacity of devices that a manifest does not
// declare for settings. It may be called by several goroutines.
func Declared(tb testing.TB, m *manifest.Manifest, settings string) func([]*backendv1.Device) {
	tb.Helper()
	declared := m.Attributes(Merged(tb, m, settings))
	return func(devices []*backendv1.Device) {
		tb.Helper()
		for _, d := range devices {
			for name, value := range d.GetAttributes() {
				if kind := inventory.KindOf(value); !inventory.Declares(declared, name, kind) {
					tb.Errorf("%s has the attribute %s of kind %q, which its manifest does not declare", d.GetId(), name, kind)
				}
			}
			for name := range d.GetCapacities() {
				if !inventory.Declares(declared, name, inventory.CapacityKind) {
					tb.Errorf("%s has the capacity %s, which its manifest does not declare", d.GetId(), name)
				}
			}
		}
	}
}
