package resource

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
)

// TestMapProperties verifies, for any profile and any snapshots, what holds of
// every table.
func TestMapProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProfile(t)
		m, err := Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		pool := map[inventory.Key]*inventory.Device{}
		var before *Table
		for generation := range uint64(rapid.IntRange(1, 4).Draw(t, "snapshots")) {
			snap := drawSnapshot(t, generation, pool)
			table := m.Map(snap, nil)
			checkTable(t, p, snap, table)
			checkKept(t, before, table)

			fresh, err := Compile(p)
			if err != nil {
				t.Fatal(err)
			}
			fresh.last = before
			if diff := cmp.Diff(fresh.Map(snap, nil), table, cmpopts.IgnoreUnexported(Table{})); diff != "" {
				t.Fatalf("the table depends on more of what was mapped before than the table before (-without +with):\n%s", diff)
			}
			before = table
		}
	})
}

// checkKept verifies that no device takes the place of one that another backend has
// had there, and still has.
func checkKept(t *rapid.T, before, table *Table) {
	if before == nil {
		return
	}
	places := map[string]map[string]inventory.Key{}
	for _, r := range before.Resources {
		places[r.Name] = map[string]inventory.Key{}
		for _, d := range r.Devices {
			places[r.Name][d.ID] = d.Key
		}
	}
	for _, problem := range table.Problems {
		for _, r := range table.Resources {
			had, ok := places[r.Name][problem.Device]
			if ok && strings.Contains(problem.Message, "resource "+r.Name+": backend "+had.Backend+" reports the same ID") {
				t.Fatalf("%s had its place in %s before: %s", had, r.Name, problem.Message)
			}
		}
	}
}

// checkTable verifies that each device is in one place only, and knows it.
func checkTable(t *rapid.T, p *config.Profile, snap *inventory.Snapshot, table *Table) {
	if table.Generation != snap.Generation || len(table.Resources) != len(p.Resources) {
		t.Fatalf("generation %d, %d resources", table.Generation, len(table.Resources))
	}
	places := map[inventory.Key]int{}
	for i, r := range table.Resources {
		seen := map[string]bool{}
		for _, d := range r.Devices {
			if seen[d.ID] {
				t.Fatalf("%s has the ID %s twice", r.Name, d.ID)
			}
			seen[d.ID] = true
			places[d.Key]++
			if d.Resource != r.Name {
				t.Fatalf("device %s of %s has the resource %q", d.Key, r.Name, d.Resource)
			}
			if b := p.Resources[i].Backend; b != "" && b != d.Backend {
				t.Fatalf("%s is limited to backend %s and has %s", r.Name, b, d.Key)
			}
		}
	}
	for _, key := range table.Unassigned {
		places[key]++
	}
	missing := 0
	for _, b := range snap.Backends {
		for _, d := range b.Devices {
			if places[d.Key] > 1 {
				t.Fatalf("%s is in %d places", d.Key, places[d.Key])
			}
			missing += 1 - places[d.Key]
		}
	}
	if missing != len(table.Problems) {
		t.Fatalf("%d devices are nowhere, but there are %d problems: %v", missing, len(table.Problems), table.Problems)
	}
}

func drawProfile(t *rapid.T) *config.Profile {
	p := &config.Profile{}
	for i := range rapid.IntRange(0, 4).Draw(t, "resources") {
		p.Resources = append(p.Resources, config.Resource{
			Name:    fmt.Sprintf("ex.com/r%d", i),
			Backend: rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "backend"),
			Class:   rapid.SampledFrom([]string{"", "gpu", "nic"}).Draw(t, "class"),
			Selector: rapid.SampledFrom([]string{
				"", `device.attributes["a"].n > 1`, `device.attributes["b"].n == 2`, `device.attributes["accelmux.io"].numaNode == 0`,
			}).Draw(t, "selector"),
			Replicas: rapid.IntRange(1, 3).Draw(t, "replicas"),
		})
	}
	return p
}

// drawSnapshot makes devices and takes some from earlier snapshots, as the
// inventory does.
func drawSnapshot(t *rapid.T, generation uint64, pool map[inventory.Key]*inventory.Device) *inventory.Snapshot {
	snap := &inventory.Snapshot{Generation: generation}
	for _, name := range []string{"a", "b"} {
		if !rapid.Bool().Draw(t, "present") {
			continue
		}
		b := backend(name)
		for _, id := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"X", "Y", "Z", "W"}), rapid.ID[string]).Draw(t, "devices") {
			key := inventory.Key{Backend: name, ID: id}
			if pool[key] == nil || rapid.Bool().Draw(t, "changed") {
				d := &inventory.Device{Key: key, Class: rapid.SampledFrom([]string{"gpu", "nic"}).Draw(t, "class")}
				if rapid.Bool().Draw(t, "attribute") {
					d.Attributes = inventory.Named(map[string]inventory.Attribute{"n": {Value: rapid.Int64Range(0, 3).Draw(t, "n")}})
				}
				d.NUMANodes = rapid.SampledFrom([][]int{nil, {0}, {1}, {0, 1}}).Draw(t, "numa")
				pool[key] = d
			}
			b.Devices = append(b.Devices, pool[key])
		}
		snap.Backends = append(snap.Backends, b)
	}
	return snap
}
