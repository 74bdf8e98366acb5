package resource

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
)

// TestAgainProperty verifies that a table that is made from the one before it is what
// it would be if it were made from the start, whatever changes from one snapshot to the
// next, and that tables say so truly which have their units in the same places.
func TestAgainProperty(t *testing.T) {
	again := 0
	rapid.Check(t, func(t *rapid.T) {
		p := drawProfile(t)
		if rapid.Bool().Draw(t, "named") {
			p.Resources = append(p.Resources, config.Resource{Name: "ex.com/{accelmux.io/class}", Replicas: rapid.IntRange(1, 2).Draw(t, "replicas")})
		}
		m, err := Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		snap, v := drawSnapshot(t, 0, map[inventory.Key]*inventory.Device{})
		held := map[string]bool{}
		before := m.Map(snap, v, held)
		for generation := range uint64(rapid.IntRange(1, 6).Draw(t, "snapshots")) {
			snap, v, held = drawNext(t, generation+1, snap, v, held)
			m.mu.Lock()
			slow := Mapper{rules: m.rules, names: m.names.clone(), cache: map[string]*backendCache{}, last: m.last}
			m.mu.Unlock()
			table, want := m.Map(snap, v, held), slow.Map(snap, v, held)
			if diff := cmp.Diff(want, table, cmpopts.IgnoreUnexported(Table{})); diff != "" {
				t.Fatalf("generation %d (-from the start +from the one before):\n%s", generation, diff)
			}
			checkPlaces(t, before, table)
			if table.SamePlaces(before) {
				again++
			}
			before = table
		}
	})
	if again < 20 {
		t.Errorf("only %d tables were made from the one before", again)
	}
}

// clone is the names as they are, for another Mapper; kinds are shared by no one.
func (n *names) clone() *names {
	c := *n
	c.kinds, c.owners, c.held = map[kindKey]*kind{}, map[string]*kind{}, maps.Clone(n.held)
	of := map[*kind]*kind{}
	copied := func(k *kind) *kind {
		if of[k] == nil {
			other := *k
			of[k] = &other
		}
		return of[k]
	}
	for key, k := range n.kinds {
		c.kinds[key] = copied(k)
	}
	for name, k := range n.owners {
		c.owners[name] = copied(k)
	}
	return &c
}

func checkPlaces(t *rapid.T, before, now *Table) {
	if !now.SamePlaces(before) {
		return
	}
	for i, r := range now.Resources {
		was := before.Resources[i]
		if r.Name != was.Name || r.Replicas != was.Replicas || now.Mapped(i) != len(r.Units) ||
			!slices.EqualFunc(r.Units, was.Units, func(a, b Unit) bool { return a.ID == b.ID && a.Device.Key == b.Device.Key }) {
			t.Fatalf("%s does not have its units in the same places", r.Name)
		}
	}
}

// drawNext is a snapshot after another one: mostly with other states of the same
// devices, and now and then with everything else that may change.
func drawNext(t *rapid.T, generation uint64, before *inventory.Snapshot, v verdicts, held map[string]bool) (*inventory.Snapshot, verdicts, map[string]bool) {
	next, v := &inventory.Snapshot{Generation: generation}, maps.Clone(v)
	for _, was := range before.Backends {
		b := *was
		b.Devices = slices.Clone(was.Devices)
		for i, d := range b.Devices {
			other := *d
			switch rapid.IntRange(0, 9).Draw(t, "device") {
			case 0, 1:
				other.Health.Message = fmt.Sprint(generation)
			case 2:
				other.Class = rapid.SampledFrom([]string{"gpu", "nic"}).Draw(t, "class")
			case 3:
				other.Attributes = inventory.Named(map[string]inventory.Attribute{"n": {Value: rapid.Int64Range(0, 3).Draw(t, "n")}})
			case 4:
				other.Parent = "P"
			default:
				continue
			}
			b.Devices[i] = &other
		}
		switch rapid.IntRange(0, 19).Draw(t, "backend") {
		case 0:
			slices.Reverse(b.Devices)
		case 1:
			b.Devices = b.Devices[:len(b.Devices)/2]
		case 2:
			b.Description.Version = "1.5.0"
		case 3:
			continue
		}
		next.Backends = append(next.Backends, &b)
	}
	for _, b := range before.Backends {
		for _, d := range b.Devices {
			switch rapid.IntRange(0, 4).Draw(t, "verdict") {
			case 0:
				v[d.Key] = faulty
			case 1:
				delete(v, d.Key)
			}
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "holds") == 0 {
		held = map[string]bool{"ex.com/r0": true, "ex.com/left": true}
	}
	return next, v, held
}

// TestInheritedTableIsMadeAnew verifies that what another Mapper made is not taken for
// one's own.
func TestInheritedTableIsMadeAnew(t *testing.T) {
	snap := snapshot(1, backend("mock", gpu("mock", "a")))
	before := mapper(t, profile(t, "[{name: mock}]", "  - {name: ex.com/a}\n"))
	table := before.Map(snap, verdicts{}, nil)
	m := mapper(t, profile(t, "[{name: mock}]", "  - {name: ex.com/b}\n"))
	m.Map(snap, verdicts{}, nil)
	m.Inherit(before)
	if now := m.Map(snap, verdicts{}, nil); now.SamePlaces(table) || now.Resources[0].Name != "ex.com/b" || len(now.Resources[0].Units) != 1 {
		t.Errorf("the table is %v", outline(now))
	}
}
