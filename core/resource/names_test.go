package resource

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/inventory"
)

// slice is a partition with a profile; "" for none.
func slice(id, profile string) *inventory.Device {
	d := &inventory.Device{Key: inventory.Key{Backend: "mock", ID: id}, Class: "mig"}
	if profile != "" {
		d.Attributes = inventory.Named(map[string]inventory.Attribute{"profile": {Value: profile}})
	}
	return d
}

// TestGeneratedNames verifies what becomes of devices and names, snapshot by
// snapshot, where names have placeholders.
func TestGeneratedNames(t *testing.T) {
	a, b := slice("A", "1g.5gb"), slice("B", "1g.5gb")
	plus, dot := slice("P", "1g+me"), slice("Q", "1g.me")
	left := func(device, profile, owner string) string {
		return fmt.Sprintf(`problem %s: resource ex.com/mig-{profile}: profile %q makes the name ex.com/mig-1g.me, which other devices have by profile %q; `+
			`this device is left out, as pods could not tell them apart: give one of them a resource of its own before this one`, device, profile, owner)
	}
	type step struct {
		devices []*inventory.Device
		want    []string
	}
	tests := map[string]struct {
		resources string
		steps     []step
	}{
		"one for each value, in the order of names": {
			"  - {name: ex.com/gpu, class: gpu}\n  - {name: 'ex.com/mig-{profile}'}\n  - {name: ex.com/rest}\n",
			[]step{
				{nil, []string{"ex.com/gpu:", "ex.com/rest:"}},
				{[]*inventory.Device{slice("C", "3g.20gb"), a, slice("N", ""), gpu("mock", "G"), b}, []string{
					"ex.com/gpu: mock/G", "ex.com/mig-1g.5gb: mock/A mock/B", "ex.com/mig-3g.20gb: mock/C", "ex.com/rest: mock/N",
				}},
			},
		},
		"a name stays when its devices are gone, and is theirs when they are back": {
			"  - {name: 'ex.com/mig-{profile}'}\n",
			[]step{
				{[]*inventory.Device{a}, []string{"ex.com/mig-1g.5gb: mock/A"}},
				{[]*inventory.Device{slice("A", "2g.10gb")}, []string{"ex.com/mig-1g.5gb:", "ex.com/mig-2g.10gb: mock/A"}},
				{nil, []string{"ex.com/mig-1g.5gb:", "ex.com/mig-2g.10gb:"}},
				{[]*inventory.Device{b}, []string{"ex.com/mig-1g.5gb: mock/B", "ex.com/mig-2g.10gb:"}},
			},
		},
		"attributes of each type, and facts": {
			"  - {name: 'ex.com/{model}-{cores}-{ecc}-{firmware}-{accelmux.io/numaNode}.{accelmux.io/vendor}'}\n",
			[]step{{[]*inventory.Device{gpu("mock", "G"), slice("A", "x")}, []string{"ex.com/M1-64-true-1.10.0-1.ACME: mock/G", "unassigned: [mock/A]"}}},
		},
		"an empty text is no attribute": {
			"  - {name: 'ex.com/x{profile}'}\n",
			[]step{{[]*inventory.Device{slice("A", " "), {Key: inventory.Key{Backend: "mock", ID: "B"}, Attributes: inventory.Named(map[string]inventory.Attribute{"profile": {Value: ""}})}}, []string{
				"ex.com/x: mock/A", "unassigned: [mock/B]",
			}}},
		},
		"of two values that are one name, the one that is the name has it": {
			"  - {name: 'ex.com/mig-{profile}'}\n  - {name: ex.com/rest}\n",
			[]step{
				{[]*inventory.Device{plus, dot}, []string{"ex.com/mig-1g.me: mock/Q", "ex.com/rest:", left("P", "1g+me", "1g.me")}},
				// It is not the other's before it is free.
				{[]*inventory.Device{plus}, []string{"ex.com/mig-1g.me: mock/P", "ex.com/rest:"}},
				{[]*inventory.Device{dot, plus}, []string{"ex.com/mig-1g.me: mock/P", "ex.com/rest:", left("Q", "1g.me", "1g+me")}},
				{nil, []string{"ex.com/mig-1g.me:", "ex.com/rest:"}},
				{[]*inventory.Device{dot}, []string{"ex.com/mig-1g.me: mock/Q", "ex.com/rest:"}},
			},
		},
		"a name that another resource has": {
			"  - {name: 'ex.com/mig-{profile}'}\n  - {name: ex.com/mig-all}\n",
			[]step{{[]*inventory.Device{slice("A", "all"), slice("B", "")}, []string{
				"ex.com/mig-all: mock/B",
				`problem A: resource ex.com/mig-{profile}: profile "all" makes the name ex.com/mig-all, which is that of another resource; ` +
					`this device is left out, as pods could not tell them apart: give one of them a resource of its own before this one`,
			}}},
		},
		"a name that is none leaves the device to the next": {
			"  - {name: 'ex.com/{profile}'}\n  - {name: ex.com/rest}\n",
			[]step{{[]*inventory.Device{slice("A", "++"), slice("B", strings.Repeat("x", 64))}, []string{
				"ex.com/rest: mock/A mock/B",
				`problem A: resource ex.com/{profile}: the name that this device of backend mock makes of ["++"] would be empty: ` +
					`it must have a letter or a digit (A-Z, a-z, 0-9); it is not selected: give such devices a resource with another name before this one`,
				`problem B: resource ex.com/{profile}: the name that this device of backend mock makes of ["` + strings.Repeat("x", 64) + `"] would have 64 characters ` +
					`after the slash, at most 63 are allowed; it is not selected: give such devices a resource with another name before this one`,
			}}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m := mapper(t, profile(t, "[{name: mock}]", tc.resources))
			for i, step := range tc.steps {
				for range 2 { // the second time from the cache
					table := m.Map(snapshot(uint64(i), backend("mock", step.devices...)), nil)
					if diff := cmp.Diff(step.want, outline(table)); diff != "" {
						t.Fatalf("step %d (-want +got):\n%s", i, diff)
					}
					for _, r := range table.Resources {
						if !m.Owns(r.Name) {
							t.Errorf("%s is not known as ours", r.Name)
						}
					}
				}
			}
			if m.Owns("ex.org/gpu") {
				t.Error("ex.org/gpu is taken for ours")
			}
		})
	}
}

// TestHeldNames verifies that a name which only containers have is there, if the
// profile may have made it, and is that of the next device that makes it.
func TestHeldNames(t *testing.T) {
	m := mapper(t, profile(t, "[{name: mock}]", "  - {name: ex.com/gpu, class: gpu}\n  - {name: 'ex.com/mig-{profile}', replicas: 2}\n  - {name: 'ex.com/{profile}', class: mig}\n"))
	held := map[string]bool{"ex.com/mig-1g.5gb": true, "ex.com/gpu": true, "ex.org/gpu": true}
	for _, step := range []struct {
		held    map[string]bool
		devices []*inventory.Device
		want    []string
	}{
		{nil, nil, []string{"ex.com/gpu:"}},
		{held, nil, []string{"ex.com/gpu, held:", "ex.com/mig-1g.5gb, held:"}},
		{nil, []*inventory.Device{slice("A", "1g.5gb")}, []string{"ex.com/gpu:", "ex.com/mig-1g.5gb: mock/A"}},
		{held, nil, []string{"ex.com/gpu, held:", "ex.com/mig-1g.5gb, held:"}},
	} {
		table := m.Map(snapshot(1, backend("mock", step.devices...)), step.held)
		if diff := cmp.Diff(step.want, outline(table)); diff != "" {
			t.Errorf("held %v (-want +got):\n%s", step.held, diff)
		}
	}
}

// TestInheritedNames verifies which names outlive a change of the configuration, and
// that who has one keeps it.
func TestInheritedNames(t *testing.T) {
	const template = "  - {name: 'ex.com/mig-{profile}'}\n"
	plus, dot := slice("P", "1g+me"), slice("Q", "1g.me")
	for name, tc := range map[string]struct {
		resources string
		want      []string
	}{
		"another resource before it": {"  - {name: ex.com/gpu, class: gpu}\n" + template, []string{
			"ex.com/gpu:", "ex.com/mig-1g.me: mock/P", "ex.com/mig-2g:",
			`problem Q: resource ex.com/mig-{profile}: profile "1g.me" makes the name ex.com/mig-1g.me, which other devices have by profile "1g+me"; ` +
				`this device is left out, as pods could not tell them apart: give one of them a resource of its own before this one`,
		}},
		"written out":      {"  - {name: ex.com/mig-2g, class: gpu}\n  - {name: ex.com/mig-1g.me}\n" + template, []string{"ex.com/mig-2g:", "ex.com/mig-1g.me: mock/P mock/Q"}},
		"another domain":   {"  - {name: 'ex.org/mig-{profile}', class: gpu}\n", []string{"unassigned: [mock/P mock/Q]"}},
		"no template":      {"  - {name: ex.com/all}\n", []string{"ex.com/all: mock/P mock/Q"}},
		"the same, unused": {"  - {name: ex.com/all}\n" + template, []string{"ex.com/all: mock/P mock/Q", "ex.com/mig-1g.me:", "ex.com/mig-2g:"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := mapper(t, profile(t, "[{name: mock}]", template))
			before.Map(snapshot(1, backend("mock", plus, slice("A", "2g"))), nil)
			m := mapper(t, profile(t, "[{name: mock}]", tc.resources))
			m.Inherit(before)
			if diff := cmp.Diff(tc.want, outline(m.Map(snapshot(2, backend("mock", plus, dot)), nil))); diff != "" {
				t.Errorf("table (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNamesAreBounded verifies that a backend whose devices have other values all the
// time makes a bounded number of names, over a switch of the configuration, too, and a
// few at a time; and that another resource's devices get their names.
func TestNamesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const resources = "  - {name: 'ex.com/{accelmux.io/id}', class: mig}\n  - {name: 'ex.org/{model}'}\n"
		m := mapper(t, profile(t, "[{name: mock}]", resources))
		next := 0
		made := map[string]bool{}
		round := func(devices int) *Table {
			all := []*inventory.Device{gpu("mock", "G")}
			for range devices {
				all = append(all, slice(fmt.Sprintf("D%04d", next), ""))
				next++
			}
			table := m.Map(snapshot(uint64(next), backend("mock", all...)), nil)
			for _, r := range table.Resources {
				made[r.Name] = true
			}
			if last := table.Resources[len(table.Resources)-1]; last.Name != "ex.org/M1" || len(last.Devices) != 1 {
				t.Errorf("the last resource is %s with %d devices; want the other template's with its device", last.Name, len(last.Devices))
			}
			return table
		}
		table := round(nameBurst + 2)
		if len(made) != nameBurst+1 || len(table.Problems) != 2 || !table.RetryAt.Equal(time.Now().Add(nameInterval)) {
			t.Fatalf("%d names at once, problems %v, next at %v", len(made), table.Problems, table.RetryAt)
		}
		const waits = `resource ex.com/{accelmux.io/id}: accelmux.io/id "D0064" makes the name ex.com/D0064, which must wait: a resource makes 64 names immediately, and then one every 10s`
		if got := table.Problems[0]; got.Device != "D0064" || got.Message != waits {
			t.Errorf("problem %+v; want %s", got, waits)
		}
		next -= 2 // the same devices, with the same values
		<-time.After(nameInterval)
		if table = round(2); len(made) != nameBurst+2 || len(table.Problems) != 1 {
			t.Errorf("%d names after the pause, problems %v", len(made), table.Problems)
		}
		for range maxNames {
			<-time.After(nameInterval)
			table = round(10)
			again := mapper(t, profile(t, "[{name: mock}]", resources))
			again.Inherit(m)
			m = again
		}
		const full = `would make the name ex.com/D2625, but the resource has made 256 names since the agent started, which is the limit; ` +
			`this device is left out: choose placeholders with fewer values, or select fewer devices; a restart of the agent resets the count`
		if len(made) != maxNames+1 || len(table.Problems) != 10 || !strings.HasSuffix(table.Problems[9].Message, full) || !table.RetryAt.IsZero() {
			t.Errorf("%d names in all, problems %v, next at %v", len(made), table.Problems, table.RetryAt)
		}
		if len(m.names.kinds) > maxNames+11 {
			t.Errorf("%d kinds are remembered", len(m.names.kinds))
		}
	})
}
