package resource

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
)

// profile loads the profile whose backends and resources are given as YAML.
func profile(tb testing.TB, backends, resources string) *config.Profile {
	tb.Helper()
	c, err := config.Parse("node.yaml", []byte("apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles:\n- name: default\n  backends: "+
		backends+"\n  resources:\n"+resources))
	if err != nil {
		tb.Fatal(err)
	}
	return &c.Profiles[0]
}

func mapper(tb testing.TB, p *config.Profile) *Mapper {
	tb.Helper()
	m, err := Compile(p)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// gpu is a device with one attribute of each type.
func gpu(backend, id string) *inventory.Device {
	return &inventory.Device{
		Key:   inventory.Key{Backend: backend, ID: id},
		Class: "gpu",
		Attributes: inventory.Named(map[string]inventory.Attribute{
			"model":    {Value: "M1"},
			"cores":    {Value: int64(64)},
			"ecc":      {Value: true},
			"firmware": {Value: inventory.Version("1.10.0")},
		}),
		Capacities: inventory.Named(map[string]int64{"memory": 80 << 30}),
		NUMANodes:  []int{1},
		PCIBusID:   "0000:65:00.0",
	}
}

func snapshot(generation uint64, backends ...*inventory.Backend) *inventory.Snapshot {
	return &inventory.Snapshot{Generation: generation, Backends: backends}
}

func backend(name string, devices ...*inventory.Device) *inventory.Backend {
	return &inventory.Backend{
		Name: name, Devices: devices,
		Description: inventory.Description{Name: name, Vendor: "ACME", Version: "1.4.0"},
	}
}

// outline is a table as text: resource, devices, what is left.
func outline(t *Table) (lines []string) {
	for _, r := range t.Resources {
		line := r.Name
		if r.Held {
			line += ", held"
		}
		line += ":"
		for _, d := range r.Devices {
			line += " " + d.Backend + "/" + d.ID
		}
		lines = append(lines, line)
	}
	if len(t.Unassigned) > 0 {
		lines = append(lines, fmt.Sprintf("unassigned: %v", t.Unassigned))
	}
	for _, p := range t.Problems {
		lines = append(lines, "problem "+p.Device+": "+p.Message)
	}
	return lines
}

// TestSelectors verifies the environment that doc.go promises to selectors.
func TestSelectors(t *testing.T) {
	whole, part := gpu("mock", "GPU-1"), gpu("mock", "MIG-1")
	part.Parent, part.NUMANodes, part.PCIBusID = "GPU-1", []int{0, 1}, ""
	tests := map[string]struct {
		selector string
		want     string // the devices that it selects
		problem  string
	}{
		"none":            {``, "GPU-1 MIG-1", ""},
		"string function": {`device.attributes["mock"].model.startsWith("M") && device.attributes["mock"].cores >= 64 && device.attributes["mock"].ecc`, "GPU-1 MIG-1", ""},
		"int":             {`device.attributes["mock"].cores > 64`, "", ""},
		"version":         {`device.attributes["mock"].firmware.isGreaterThan(semver("1.9.0"))`, "GPU-1 MIG-1", ""},
		"capacity":        {`device.capacity["mock"].memory.compareTo(quantity("80Gi")) == 0`, "GPU-1 MIG-1", ""},
		"facts": {`cel.bind(a, device.attributes["accelmux.io"], a.id == "GPU-1" && a.class == "gpu" && a.numaNode == 1 && a.pciBusID == "0000:65:00.0" && ` +
			`a.vendor == "ACME" && a.backendVersion.isLessThan(semver("2.0.0")))`, "GPU-1", ""},
		"fact parent":        {`device.attributes["accelmux.io"].parent == "GPU-1"`, "MIG-1", ""},
		"missing attribute":  {`device.attributes["mock"].colour == "red"`, "", ""},
		"missing or present": {`device.attributes["mock"].colour == "red" || device.attributes["mock"].model == "M1"`, "GPU-1 MIG-1", ""},
		"wrong type":         {`device.attributes["mock"].model > 5`, "", "no such overload"},
		"not a boolean":      {`device.attributes["mock"].model`, "", "could not be converted to bool"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := profile(t, "[{name: mock}]", fmt.Sprintf("  - {name: ex.com/a, selector: %q}\n", tc.selector))
			table := mapper(t, p).Map(snapshot(1, backend("mock", whole, part)), nil)
			var got []string
			for _, d := range table.Resources[0].Devices {
				got = append(got, d.ID)
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("selects %q, want %q", s, tc.want)
			}
			if len(table.Unassigned)+len(got) != 2 {
				t.Errorf("%d devices and %d unassigned of 2", len(got), len(table.Unassigned))
			}
			switch {
			case tc.problem == "" && len(table.Problems) > 0:
				t.Errorf("problems: %v", table.Problems)
			case tc.problem != "" && (len(table.Problems) != 2 || !strings.Contains(table.Problems[0].Message, tc.problem)):
				t.Errorf("problems %v, want one about %q for each device", table.Problems, tc.problem)
			}
		})
	}
}

// TestMap verifies which resource gets which device, and the problems.
func TestMap(t *testing.T) {
	nic := gpu("net", "NIC-1")
	nic.Class = "nic"
	tests := map[string]struct {
		backends, resources string
		snap                *inventory.Snapshot
		want                []string
	}{
		"the first that selects": {
			"[{name: mock}]", "  - {name: ex.com/b, selector: 'device.attributes[\"mock\"].cores < 64'}\n  - {name: ex.com/a}\n  - {name: ex.com/c}\n",
			snapshot(1, backend("mock", gpu("mock", "A"))),
			[]string{"ex.com/b:", "ex.com/a: mock/A", "ex.com/c:"},
		},
		"backend and class": {
			"[{name: mock}, {name: net}]", "  - {name: ex.com/nic, class: nic}\n  - {name: ex.com/none, backend: net}\n  - {name: ex.com/gpu, backend: mock}\n",
			snapshot(1, backend("mock", gpu("mock", "A")), backend("net", nic, gpu("net", "B"))),
			[]string{"ex.com/nic: net/NIC-1", "ex.com/none: net/B", "ex.com/gpu: mock/A"},
		},
		"made on demand": {
			"[{name: mock}]", "  - {name: ex.com/a}\n  - {name: ex.com/b, api: dra}\n",
			snapshot(1, backend("mock", gpu("mock", "A"), &inventory.Device{Key: inventory.Key{Backend: "mock", ID: "P"}, Class: "gpu", Potential: true},
				&inventory.Device{Key: inventory.Key{Backend: "mock", ID: "M"}, Class: "gpu", MadeFor: "uid"})),
			[]string{"ex.com/a: mock/A", "ex.com/b: mock/P mock/M"},
		},
		"one ID, two backends, one resource": {
			"[{name: a}, {name: b}]", "  - {name: ex.com/a}\n",
			snapshot(1, backend("a", gpu("a", "X")), backend("b", gpu("b", "X"), gpu("b", "Y"))),
			[]string{
				"ex.com/a: a/X b/Y",
				"problem X: resource ex.com/a: backend b reports the same ID as backend a, and kubelet could not tell them apart; the one of b is left out: give one of them another resource",
			},
		},
		"one ID, two backends, two resources": {
			"[{name: a}, {name: b}]", "  - {name: ex.com/a, backend: a}\n  - {name: ex.com/b}\n",
			snapshot(1, backend("a", gpu("a", "X")), backend("b", gpu("b", "X"))),
			[]string{"ex.com/a: a/X", "ex.com/b: b/X"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m := mapper(t, profile(t, tc.backends, tc.resources))
			for _, again := range []bool{false, true} { // the second time from the cache
				if diff := cmp.Diff(tc.want, outline(m.Map(tc.snap, nil))); diff != "" {
					t.Errorf("table, from the cache %v (-want +got):\n%s", again, diff)
				}
			}
		})
	}
}

// TestOwnerKeepsAnID verifies that a backend that comes later, or comes first in the
// order of names, takes no ID from the one that had it, not even by a change of the
// configuration; and that the ID is free when its owner reports it no more.
func TestOwnerKeepsAnID(t *testing.T) {
	const backends, resources = "[{name: a}, {name: b}]", "  - {name: ex.com/a}\n"
	m := mapper(t, profile(t, backends, resources))
	m.Map(snapshot(1, backend("b", gpu("b", "X"))), nil)
	both := snapshot(2, backend("a", gpu("a", "X")), backend("b", gpu("b", "X")))
	want := []string{
		"ex.com/a: b/X",
		"problem X: resource ex.com/a: backend a reports the same ID as backend b, and kubelet could not tell them apart; the one of a is left out: give one of them another resource",
	}
	check := func(when string, got, want []string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	check("a comes later", outline(m.Map(both, nil)), want)
	next := mapper(t, profile(t, backends, resources))
	next.Inherit(m)
	check("another configuration", outline(next.Map(both, nil)), want)
	check("b is gone", outline(next.Map(snapshot(3, backend("a", gpu("a", "X"))), nil)), []string{"ex.com/a: a/X"})
}

// TestCompileRefuses verifies that a profile that was not validated gives an
// error and not a resource that selects everything.
func TestCompileRefuses(t *testing.T) {
	_, err := Compile(&config.Profile{Resources: []config.Resource{
		{Name: "ex.com/a", Selector: "1 +"}, {Name: "ex.com/b", Selector: "true"}, {Name: "ex.com/c", Selector: "nope"},
	}})
	if err == nil || !strings.Contains(err.Error(), "resource ex.com/a: selector: is not a CEL expression") ||
		!strings.Contains(err.Error(), "resource ex.com/c: selector: is not a CEL expression") {
		t.Errorf("error %v, want one for each bad selector", err)
	}
}

// TestCache verifies that a device is evaluated again only when it or its
// backend's description is another, and that what is gone is forgotten.
func TestCache(t *testing.T) {
	m := mapper(t, profile(t, "[{name: mock}]", "  - {name: \"ex.com/{accelmux.io/class}\", selector: 'device.attributes[\"accelmux.io\"].vendor == \"ACME\"'}\n"))
	a, b := gpu("mock", "A"), gpu("mock", "B")
	assigned := func(snap *inventory.Snapshot) *assignment { return m.assign(snap)[0][0] }

	first := assigned(snapshot(1, backend("mock", a, b)))
	if again := assigned(snapshot(2, backend("mock", a))); again != first {
		t.Error("an unchanged device was evaluated again")
	}
	if n := len(m.cache["mock"].devices); n != 1 {
		t.Errorf("%d devices are remembered after one of two was removed", n)
	}
	upgraded := backend("mock", a)
	upgraded.Description.Version = "2.0.0"
	if now := assigned(snapshot(5, upgraded)); now == first || now.rule != 0 {
		t.Error("the version changed, and the selector was not evaluated again")
	}
	sold := backend("mock", a)
	sold.Description.Vendor, sold.Description.Version = "Other", "2.0.0"
	if now := assigned(snapshot(6, sold)); now.rule != -1 {
		t.Error("the vendor changed, and the selector was not evaluated again")
	}
	m.assign(snapshot(7))
	if len(m.cache) != 0 {
		t.Errorf("backends that are gone are remembered: %v", m.cache)
	}
}
