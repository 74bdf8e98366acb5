package cdi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/accelmux/accelmux/core/inventory"
)

// whole is a spec as it would be encoded in one piece.
func whole(t *rapid.T, d definitions, k kind, hooks int) string {
	spec := &specs.Spec{Kind: k.String()}
	for name := range d {
		edits, err := d[name].edits()
		if err != nil {
			t.Fatal(err)
		}
		spec.Devices = append(spec.Devices, specs.Device{Name: name, ContainerEdits: *edits})
	}
	slices.SortFunc(spec.Devices, func(a, b specs.Device) int { return strings.Compare(a.Name, b.Name) })
	for i := range spec.Devices {
		version, err := specs.MinimumRequiredVersion(&specs.Spec{Kind: spec.Kind, Devices: spec.Devices[i : i+1]})
		if err != nil {
			t.Fatal(err)
		}
		spec.Version = max(spec.Version, version)
	}
	count := map[string]int{}
	for _, device := range spec.Devices {
		for _, variable := range device.ContainerEdits.Env {
			count[variable]++
		}
	}
	own := func(variable string) bool { return count[variable] < len(spec.Devices) }
	for i := range spec.Devices {
		edits := &spec.Devices[i].ContainerEdits
		spec.ContainerEdits.Hooks, edits.Hooks = edits.Hooks[:hooks:hooks], edits.Hooks[hooks:]
		spec.ContainerEdits.Env = slices.DeleteFunc(slices.Clone(edits.Env), own)
		edits.Env = slices.DeleteFunc(edits.Env, func(variable string) bool { return !own(variable) })
	}
	content, err := encodeSpec(spec)
	if err != nil {
		t.Fatal(err)
	}
	return compact(t, content)
}

func compact(t *rapid.T, content []byte) string {
	var b bytes.Buffer
	if err := json.Compact(&b, content); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Verifies that the file, written device by device, has what it would have in one piece.
func TestSpecIsWrittenInPieces(t *testing.T) {
	k := kind{backend: "mock", class: "gpu"}
	rapid.Check(t, func(t *rapid.T) {
		defs := definitions{}
		shared := rapid.IntRange(0, 2).Draw(t, "hooks that all share")
		for i := range rapid.IntRange(2, 6).Draw(t, "devices") {
			e := inventory.Edits{Env: inventory.Named(map[string]string{"A": rapid.SampledFrom([]string{"<1>", "2\n", `"devices": null`}).Draw(t, "value")})}
			if rapid.Bool().Draw(t, "node elsewhere") {
				e.DeviceNodes = []inventory.DeviceNode{{Path: "/dev/a", HostPath: "/dev/b", Permissions: "rw"}}
			}
			if rapid.Bool().Draw(t, "group") {
				e.AdditionalGIDs = []uint32{7}
			}
			for h := range shared {
				e.Hooks = append(e.Hooks, inventory.OCIHook{Name: "poststop", Path: fmt.Sprint("/bin/shared", h)})
			}
			e.Hooks = append(e.Hooks, inventory.OCIHook{Name: "poststop", Path: fmt.Sprint("/bin/own", i)})
			key := inventory.Key{Backend: "mock", ID: rapid.SampledFrom([]string{"dev-", "0000:"}).Draw(t, "ID") + fmt.Sprint(i)}
			defs[key.ID] = &definition{key: key, base: content{of: &given{device: &inventory.Device{Key: key, Edits: e}}}}
		}
		var got bytes.Buffer
		if err := defs.write(&got, k); err != nil {
			t.Fatal(err)
		}
		if want := whole(t, defs, k, shared); compact(t, got.Bytes()) != want {
			t.Fatalf("written:\n%s\nin one piece:\n%s", got.String(), want)
		}
	})
}

// What a change of one device among many allocates.
func BenchmarkChange(b *testing.B) {
	const devices = 50_000
	var all []*inventory.Device
	for i := range devices {
		id := fmt.Sprint("dev-", i)
		all = append(all, &inventory.Device{Key: inventory.Key{Backend: "mock", ID: id}, Class: "gpu", Edits: inventory.Edits{
			Env:         inventory.Named(map[string]string{"DEVICE": id}),
			DeviceNodes: []inventory.DeviceNode{{Path: "/dev/accel/" + id, HostPath: "/dev/null", Permissions: "rw"}},
		}})
	}
	s, err := Open(Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	nobody := func(inventory.Key) bool { return false }
	s.Publish(all, nobody)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.Publish(all[:devices-i%2], nobody)
	}
}
