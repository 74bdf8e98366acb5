package reference

import (
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
)

// load returns the first profile of a configuration, with these fields of backends and of a resource.
func load(t *testing.T, backends, resource string) *config.Profile {
	t.Helper()
	c, err := config.Parse("node.yaml", []byte("apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles: [{name: a, backends: ["+backends+"], resources: [{"+resource+"}]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	return &c.Profiles[0]
}

func declarations(names ...string) (all []inventory.Declaration) {
	for _, name := range names {
		name, capacity := strings.CutSuffix(name, "=")
		d := inventory.Declaration{Name: name, Kind: inventory.StringKind}
		if capacity {
			d.Kind = inventory.CapacityKind
		}
		all = append(all, d)
	}
	return all
}

// Verifies that a name that no backend declares is found in each field that has names, with what was meant, and that
// nothing is said of what is not known.
func TestUnknown(t *testing.T) {
	backends := []*inventory.Backend{
		{Name: "gpu", Description: inventory.Description{
			Classes: []string{"gpu", "part"}, Attributes: declarations("model", "productName", "memory=", "acme.com/cluster", "numaId"),
			Parameters: []inventory.Parameter{{Name: "mode"}},
		}},
		{Name: "npu", Description: inventory.Description{Classes: []string{"npu"}, Attributes: declarations("model", "tiles=", "sensor_*")}},
		{Name: "open", Description: inventory.Description{Classes: []string{"x"}, Attributes: declarations("kind", "*")}},
		{Name: "plain", Description: inventory.Description{Classes: []string{"y"}}},
	}
	const both = "{name: gpu}, {name: npu}"
	for _, c := range []struct{ backends, resource, want string }{
		{both, `name: e.x/a, selector: 'device.attributes["gpu"].productName == "x"'`, ""},
		{both, `name: e.x/a, selector: 'device.attributes["gpu"].prodctName == "x"'`, `resources[0].selector: no device of backend gpu has the attribute prodctName; did you mean "productName"?`},
		{both, `name: e.x/a, selector: 'has(device.attributes["npu"].zzzzzz)'`, `resources[0].selector: no device of backend npu has the attribute zzzzzz; there are model`},
		{both, `name: e.x/a, selector: 'device.attributes["npu"].sensor_1 == 1'`, ""},
		{both, `name: e.x/a, selector: 'device.attributes["gpu"].memory > 1'`, `resources[0].selector: no device of backend gpu has the attribute memory; it is a capacity: device.capacity["gpu"].memory`},
		{both, `name: e.x/a, selector: 'device.capacity["gpu"].model.isInteger()'`, `resources[0].selector: no device of backend gpu has the capacity model; it is an attribute: device.attributes["gpu"].model`},
		{both, `name: e.x/a, selector: 'device.capacity["npu"].tils.isInteger()'`, `resources[0].selector: no device of backend npu has the capacity tils; did you mean "tiles"?`},
		{both, `name: e.x/a, selector: 'device.attributes["npu"].numaNode == 0'`, `resources[0].selector: no device of backend npu has the attribute numaNode; every device has device.attributes["accelmux.io"].numaNode`},
		{both, `name: e.x/a, selector: 'device.attributes["acme.com"].cluster == "x"'`, ""},
		{both, `name: e.x/a, selector: 'device.attributes["acme.com"].clustr == "x"'`, `resources[0].selector: no device has the attribute acme.com/clustr; did you mean "acme.com/cluster"?`},
		{both, `name: e.x/a, class: npu, selector: 'device.attributes["acme.com"].cluster == "x"'`, `resources[0].selector: no device of backend npu has the attribute acme.com/cluster; there are model`},
		{both, `name: e.x/a, selector: 'device.attributes["example.com"].pciBusID == "x"'`, `resources[0].selector: no device has the attribute example.com/pciBusID; every device has device.attributes["accelmux.io"].pciBusID`},

		{both, `name: e.x/a, selector: 'device.attributes["resource.kubernetes.io"].pciBusID == "x"'`, ""},
		{both, `name: e.x/a, selector: 'device.attributes["resource.kubernetes.io"].pciBusId == "x"'`, `resources[0].selector: no device has the attribute resource.kubernetes.io/pciBusId; did you mean "resource.kubernetes.io/pciBusID"?`},
		{both, `name: "e.x/{resource.kubernetes.io/pcieRoot}"`, ""},
		{both, `name: "e.x/{model}-{accelmux.io/class}"`, ""},
		{both, `name: "e.x/{productName}"`, ""},
		{both, `name: "e.x/{prodctname}"`, `resources[0].name: no device has the attribute prodctname, of which the name is made, so there is no such resource; did you mean "productName"?`},
		{both, `name: "e.x/{productName}", backend: npu`, `resources[0].name: no device of backend npu has the attribute productName, of which the name is made, so there is no such resource; there are model`},
		{both, `name: "e.x/{memory}", class: part`, `resources[0].name: no device of backend gpu has the attribute memory, of which the name is made, so there is no such resource; it is a capacity, and names are made of attributes only`},
		{both, `name: "e.x/{class}"`, `resources[0].name: no device has the attribute class, of which the name is made, so there is no such resource; every device has {accelmux.io/class}`},

		{both, `name: e.x/a, class: npu`, ""},
		{both, `name: e.x/a, class: gqu`, `resources[0].class: no backend has devices of the class gqu, so the resource would be empty; did you mean "gpu"?`},
		{both, `name: e.x/a, class: gpu, backend: npu`, `resources[0].class: no backend has devices of the class gpu, so the resource would be empty; did you mean "npu"?`},

		{"{name: gpu, features: [model, memory]}", `name: e.x/a`, ""},
		{"{name: gpu, features: [model, memry]}", `name: e.x/a`, `backends[0].features[1]: no device of backend gpu has the attribute or capacity memry; did you mean "memory"?`},
		{"{name: npu}", `name: e.x/a`, ""}, // the default has names that it does not have
		{"{name: gpu, dra: {kinds: [{apiVersion: a/v1, kind: A, fields: {a.b: mode}}]}}", `name: e.x/a`, ""},
		{"{name: gpu, dra: {kinds: [{apiVersion: a/v1, kind: A, fields: {a.b: mood}}]}}", `name: e.x/a`, `backends[0].dra.kinds[0].fields["a.b"]: claims with the field a.b of A are refused: the backend does not know the parameter mood; did you mean "mode"?`},

		// Not described yet.
		{"{name: gpu}, {name: late}", `name: "e.x/{prodctName}", class: gqu`, ""},
		{"{name: late}", `name: e.x/a, selector: 'device.attributes["late"].x == "x"'`, ""},
		// The list is open, or there is none.
		{"{name: open}", `name: e.x/a, selector: 'device.attributes["open"].kinnd == "x"'`, ""},
		{"{name: gpu}, {name: open}", `name: "e.x/{prodctName}"`, ""},
		{"{name: plain}", `name: e.x/a, selector: 'device.attributes["plain"].functionname == "x"'`, ""},
	} {
		got := ""
		for _, u := range Find(load(t, c.backends, c.resource)).Unknown(backends) {
			got += u.Field + ": " + u.Message
			if (u.Resource == "") == (u.Backend == "") {
				t.Errorf("%s: of the resource %q and the backend %q", u.Field, u.Resource, u.Backend)
			}
		}
		if got != c.want {
			t.Errorf("%s, %s: %s\nwant %s", c.backends, c.resource, got, c.want)
		}
	}
}

// Verifies that a parameter that no backend of a resource has is found.
func TestParameters(t *testing.T) {
	backends := []*inventory.Backend{
		{Name: "gpu", Description: inventory.Description{Classes: []string{"gpu"}, Parameters: []inventory.Parameter{{Name: "mode", IsText: true}}}},
		{Name: "npu", Description: inventory.Description{Classes: []string{"npu"}}},
	}
	for resource, want := range map[string]string{
		"name: e.x/a, parameters: {mode: {value: x}}":             "",
		"name: e.x/a, parameters: {moed: {value: x}}":             `resources[0].parameters.moed: containers with a value for it do not start: the backend does not know the parameter moed; did you mean "mode"?`,
		"name: e.x/a, class: npu, parameters: {mode: {value: x}}": "resources[0].parameters.mode: containers with a value for it do not start: the backend does not know the parameter mode; it has none",
	} {
		s, got := Find(load(t, "{name: gpu}, {name: npu}", resource)), ""
		for _, u := range s.Warnings(backends) {
			got += u.Field + ": " + u.Message
		}
		if got != want || len(s.Unknown(backends)) > 0 {
			t.Errorf("%s: %s\nwant %s", resource, got, want)
		}
	}
}

// Verifies for resources of several backends that there is a warning only if it is right for all of them that are known.
func TestWarningsOfSeveral(t *testing.T) {
	backend := func(name string, l *inventory.Limits) *inventory.Backend {
		return &inventory.Backend{Name: name, Description: inventory.Description{
			Classes: []string{"gpu", "part"}, Attributes: declarations("acme.com/type"), Vendor: name, Limits: l,
		}}
	}
	off := func() *inventory.Limits {
		return &inventory.Limits{
			Absent: map[string]string{"part": "split: true"},
			Values: map[string][]string{"acme.com/type": {"gpu"}}, Owners: map[string]inventory.Owners{"acme.com/type": {Classes: []string{"part"}}},
		}
	}
	four := &inventory.Limits{PreparedFor: map[string]int{"gpu": 4}}
	on := &inventory.Limits{Values: map[string][]string{"acme.com/type": {"part"}}}
	const of = `, selector: 'device.attributes["acme.com"].type == "%s"'`
	for _, c := range []struct {
		limits   *inventory.Limits
		resource string
		want     string
	}{
		{off(), "class: part", "resources[0].class: the resource is empty: backend a has no devices of the class part with these settings, which takes split: true, and backend b has no devices of the class part with these settings, which takes split: true"},
		{on, "class: part", ""}, {nil, "class: part", ""},
		{four, "replicas: 2", "resources[0].replicas: replicas is 2, but backend b sets up its devices of class gpu for 4 containers each: make replicas of the resource and the backend's settings say the same"},
		{four, "replicas: 4", ""}, {four, "replicas: 2, class: part", ""},
		{on, "class: gpu" + strings.Replace(of, "%s", "fpga", 1), `resources[0].selector: device.attributes["acme.com"].type is never "fpga"; it is one of gpu, part`},
		{on, "backend: b" + strings.Replace(of, "%s", "part", 1), ""}, {nil, "backend: b" + strings.Replace(of, "%s", "fpga", 1), ""},
		{off(), "class: gpu" + strings.Replace(of, "%s", "gpu", 1), "resources[0].selector: devices of the class gpu do not have the attribute acme.com/type, which those of the class part have"},
		{on, `backend: b, reset: afterUse`, "resources[0].reset: all devices of the resource are unhealthy, as backend b cannot reset devices: leave out reset"},
	} {
		got := ""
		for _, u := range Find(load(t, "{name: a}, {name: b}", "name: e.x/a, "+c.resource)).Warnings([]*inventory.Backend{backend("a", off()), backend("b", c.limits)}) {
			got += u.Field + ": " + u.Message
		}
		if got != c.want {
			t.Errorf("%s: %s\nwant %s", c.resource, got, c.want)
		}
	}
}
