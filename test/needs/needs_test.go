// Package needs verifies what the backends are and may do by their manifests: name, version and abilities are those of the
// programs, and the rights that follow from settings are exactly those in testdata.
package needs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/backends/amd"
	"github.com/accelmux/accelmux/backends/device"
	"github.com/accelmux/accelmux/backends/fpga"
	"github.com/accelmux/accelmux/backends/mock"
	"github.com/accelmux/accelmux/backends/nvidia"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/core/manifest"
	"github.com/accelmux/accelmux/test/manifests"
)

func backends() map[string]sdk.Backend {
	return map[string]sdk.Backend{"amd": amd.New(), "device": device.New(), "fpga": fpga.New(), "mock": mock.New(nil), "nvidia": nvidia.New(nil)}
}

// source is the manifest of a backend in the source tree.
func source(backend string) string { return filepath.Join("../../backends", backend, "manifest.yaml") }

// Verifies that a program answers with the name and the version of its manifest, and has the abilities there.
func TestIdentityAndAbilities(t *testing.T) {
	for backend, b := range backends() {
		d := manifests.Load(t, source(backend)).Description
		if name, version := b.Identity(); name != d.Name || version != d.Version || name != backend {
			t.Errorf("%s answers with %s %s, and its manifest has %s %s", backend, name, version, d.Name, d.Version)
		}
		_, prepare := b.(sdk.Preparer)
		_, release := b.(sdk.Releaser)
		_, reset := b.(sdk.Resetter)
		_, sample := b.(sdk.Sampler)
		has, declared := [4]bool{prepare, release, reset, sample}, [4]bool{d.Prepare, d.Release, d.Reset, d.Sample}
		if has != declared {
			t.Errorf("%s has Prepare, Release, Reset and Sample: %v, and in its manifest %v", backend, has, declared)
		}
	}
}

// lists are the entries of rights by section and list, as in a manifest: "process.read".
type lists map[string][]string

// golden is a file in testdata: the rights without settings, and what settings change of them.
type golden struct {
	Default map[string]lists
	Cases   []struct {
		Settings   json.RawMessage
		More, Less lists
	}
}

// Verifies the rights that settings give by the manifests.
func TestRights(t *testing.T) {
	for backend := range backends() {
		t.Run(backend, func(t *testing.T) {
			m := manifests.Load(t, source(backend))
			text, err := os.ReadFile("testdata/" + backend + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var g golden
			if err := json.Unmarshal(text, &g); err != nil {
				t.Fatal(err)
			}
			base := lists{}
			for section, of := range g.Default {
				for name, entries := range of {
					base[section+"."+name] = entries
				}
			}
			if diff := cmp.Diff(base, rightsOf(t, m, json.RawMessage("{}"))); diff != "" {
				t.Errorf("without settings (-want +got):\n%s", diff)
			}
			for _, c := range g.Cases {
				want := lists{}
				for name, entries := range base {
					want[name] = slices.DeleteFunc(slices.Clone(entries), func(e string) bool { return slices.Contains(c.Less[name], e) })
				}
				for name, entries := range c.More {
					want[name] = slices.Sorted(slices.Values(slices.Concat(want[name], entries)))
				}
				for name, entries := range want {
					if len(entries) == 0 {
						delete(want, name)
					}
				}
				if diff := cmp.Diff(want, rightsOf(t, m, c.Settings)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", c.Settings, diff)
				}
			}
		})
	}
}

func rightsOf(t *testing.T, m *manifest.Manifest, settings json.RawMessage) lists {
	t.Helper()
	r, err := m.Rights(manifests.Merged(t, m, string(settings)))
	if err != nil {
		t.Fatalf("%s: %v", settings, err)
	}
	all := lists{
		"process.list": r.Process.List, "process.read": r.Process.Read, "process.write": r.Process.Write, "process.open": r.Process.Open,
		"process.capabilities": r.Process.Capabilities, "process.systemCalls": r.Process.SystemCalls,
		"containers.devices": r.Containers.Devices, "containers.mounts": r.Containers.Mounts, "containers.readOnlyMounts": r.Containers.ReadOnlyMounts,
		"containers.hooks": r.Containers.Hooks, "containers.env": r.Containers.Env, "containers.netDevices": r.Containers.NetDevices,
	}
	for name, entries := range all {
		if len(entries) == 0 {
			delete(all, name)
		}
	}
	return all
}

// Verifies that the manifests of the examples and of the tests' backends can be loaded.
func TestManifests(t *testing.T) {
	for _, pattern := range []string{"../../backends/examples/*/manifest.yaml", "../hostile/*/manifest.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) < 2 {
			t.Errorf("%s: %q, %v", pattern, files, err)
		}
		for _, file := range files {
			manifests.Load(t, file)
		}
	}
}
