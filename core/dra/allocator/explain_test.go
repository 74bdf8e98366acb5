package allocator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	gocmp "github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/accelmux/accelmux/core/diagram"
	"github.com/accelmux/accelmux/core/dra/pool"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/topology"
	"github.com/accelmux/accelmux/test/machines"
)

// published returns what an agent has of devices of example.com/gpu, some of which claims hold.
func published(devices []*inventory.Device, held ...string) (inv Inventory) {
	r := diagram.Resource{Name: "example.com/gpu"}
	var units []topology.Unit
	byID := map[string]resource.Device{}
	for _, d := range devices {
		units = append(units, topology.Unit{ID: d.ID, Device: d, Healthy: true})
		r.Units = append(r.Units, diagram.Used{Unit: units[len(units)-1], Held: slices.Contains(held, d.ID)})
		byID[d.ID] = resource.Device{Device: d, Resource: "example.com/gpu", Verdict: health.Verdict{Healthy: true}}
	}
	r.Topology = topology.Prepare(units, topology.Options{})
	o := pool.Options{Backend: &inventory.Backend{Name: "test"}, LinkGroups: pool.NewLinkGroups(r.Topology)}
	for _, id := range r.Topology.Order() {
		o.Devices = append(o.Devices, byID[id])
	}
	return Inventory{Slices: pool.New(o).Objects("test.accelmux.io", "node"), Resources: []diagram.Topology{diagram.Describe(r)}}
}

// claimFor is a manifest of a claim.
func claimFor(requests, more string) string {
	return "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: train}\nspec: {devices: {requests: " + requests + more + "}}\n"
}

// Verifies what is said of the devices that a claim gets: whether there are better ones for its
// requests, and which constraint gives them.
func TestExplain(t *testing.T) {
	const gpus = "[{name: gpu, exactly: {deviceClassName: gpu.example.com, count: 2}}]"
	const nvlink1, nvlink2 = "1 pair (NVLink, point to point); the weakest has 100 points, all have 100", "1 pair (NVLink, point to point, 2 parallel links); the weakest has 200 points, all have 200"
	dgx1 := func(held ...string) Inventory { return published(machines.DGX1(), held...) }
	for name, c := range map[string]struct {
		inventory Inventory
		manifest  string
		want      string // without the table
	}{
		"the best": {dgx1(), claimFor(gpus, ""), `
gpu00 gpu03
Links among the devices of example.com/gpu: ` + nvlink2 + `.
No free devices have a better weakest link.`},
		"a constraint gives better ones": {dgx1("gpu00"), claimFor(gpus, ""), `
gpu01 gpu03
Links among the devices of example.com/gpu: ` + nvlink1 + `.
Better would be gpu02 gpu03: ` + nvlink2 + `.
With the constraint matchAttribute: accelmux.io/linkGroup2 the claim gets gpu01 gpu02: ` + nvlink2 + `.`},
		"with the constraint": {dgx1("gpu00"), claimFor(gpus, ", constraints: [{matchAttribute: accelmux.io/linkGroup2}]"), `
gpu01 gpu02
Links among the devices of example.com/gpu: ` + nvlink2 + `.
No free devices have a better weakest link.`},
		"no group is free": {dgx1("gpu00", "gpu01", "gpu07"), claimFor(strings.ReplaceAll(gpus, "2", "3"), ""), `
gpu02 gpu03 gpu04
Links among the devices of example.com/gpu: 1 pair (NVLink, point to point, 2 parallel links), 2 pairs (from one NUMA node to another); the weakest has 10 points, all have 220.
Better would be gpu04 gpu05 gpu06: 1 pair (NVLink, point to point, 2 parallel links), 2 pairs (NVLink, point to point); the weakest has 100 points, all have 400.
With the constraint matchAttribute: accelmux.io/linkGroup4 the claim gets gpu04 gpu05 gpu06: 1 pair (NVLink, point to point, 2 parallel links), 2 pairs (NVLink, point to point); the weakest has 100 points, all have 400.`},
		"others cannot be chosen": {dgx1("gpu00"), claimFor(`[{name: gpu, exactly: {deviceClassName: gpu.example.com, count: 2, selectors: [{cel: {expression: 'device.attributes["accelmux.io"].id in ["gpu01", "gpu03"]'}}]}}]`, ""), `
gpu01 gpu03
Links among the devices of example.com/gpu: ` + nvlink1 + `.
No free devices have a better weakest link.`},
		"alternatives": {dgx1("gpu00"), claimFor("[{name: gpu, firstAvailable: [{name: many, deviceClassName: gpu.example.com, count: 8}, {name: two, deviceClassName: gpu.example.com, count: 2}]}]", ""), `
gpu01 gpu03
Links among the devices of example.com/gpu: ` + nvlink1 + `.
Better would be gpu02 gpu03: ` + nvlink2 + `.
With the constraint matchAttribute: accelmux.io/linkGroup2 the claim gets gpu01 gpu02: ` + nvlink2 + `.`},
		"too many": {dgx1("gpu00"), claimFor(strings.ReplaceAll(gpus, "2", "8"), ""), `
Claim train stays Pending: its requests and constraints cannot be satisfied with the free devices of this node.`},
		"one after the other, a class of the file": {dgx1(), "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: mine}\nspec: {selectors: [{cel: {expression: 'device.driver == \"test.accelmux.io\"'}}]}\n---\n" +
			claimFor("[{name: a, exactly: {deviceClassName: mine}}]", "") + "---\nkind: Pod\n---\n" + claimFor("[{name: b, exactly: {deviceClassName: gpu.example.com}}]", ""), `
gpu00
gpu03`},
		"the best are of several groups": {dgx1("gpu02", "gpu03", "gpu04", "gpu06", "gpu07"), claimFor(gpus, ""), `
gpu00 gpu01
Links among the devices of example.com/gpu: ` + nvlink1 + `.
Better would be gpu01 gpu05: ` + nvlink2 + `.
With the constraint matchAttribute: accelmux.io/linkGroup2 the claim stays Pending until a link group has enough free devices.`},
	} {
		o, err := Read(strings.NewReader(c.manifest))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		all, err := Explain(t.Context(), written(t, c.inventory), o)
		var b strings.Builder
		w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
		Write(w, all)
		if err := cmp.Or(err, w.Flush()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := gocmp.Diff(strings.TrimPrefix(c.want, "\n"), withoutTable(b.String())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Verifies that a claim gets no share of a device of which the shares of other claims leave too little, neither of
// those that are prepared nor of those before it in the manifest.
func TestExplainShares(t *testing.T) {
	r := diagram.Resource{Name: "example.com/gpu"}
	o := pool.Options{Backend: &inventory.Backend{Name: "test"}, Features: pool.Features{Shares: true}}
	for i, taken := range []map[string]int64{{"memory": 16 << 30}, {"memory": 10 << 30}, nil} {
		d := &inventory.Device{
			Key: inventory.Key{Backend: "test", ID: fmt.Sprintf("gpu%d", i)}, Shareable: true, Capacities: inventory.ByName[int64]{{Name: "memory", Value: 16 << 30}},
			Policies: inventory.ByName[inventory.RequestPolicy]{{Name: "memory", Value: inventory.RequestPolicy{Default: 1 << 30}}},
		}
		o.Devices = append(o.Devices, resource.Device{Device: d, Resource: "example.com/gpu", Verdict: health.Verdict{Healthy: true}})
		r.Units = append(r.Units, diagram.Used{Unit: topology.Unit{ID: d.ID, Device: d, Healthy: true}, Held: taken != nil, Taken: taken})
	}
	r.Topology = topology.Prepare(nil, topology.Options{})
	inv := written(t, Inventory{Slices: pool.New(o).Objects("test.accelmux.io", "node"), Resources: []diagram.Topology{diagram.Describe(r)}})
	claims := strings.Repeat(claimFor("[{name: gpu, exactly: {deviceClassName: gpu.example.com, capacity: {requests: {memory: 6Gi}}}}]", "")+"---\n", 4)
	all := explain(t, inv, claims)
	var got []string
	for _, e := range all {
		for _, d := range append(e.Devices, Allocated{})[:1] {
			got = append(got, d.ID)
		}
	}
	if diff := gocmp.Diff([]string{"gpu1", "gpu2", "gpu2", ""}, got); diff != "" {
		t.Errorf("the devices of the claims (-want +got):\n%s", diff)
	}
}

// Verifies what docs/dra.md has of admin access to devices with partitions that are made for claims: a request of all
// of them stays Pending, as the scheduler counts what they consume, and one of each device works.
func TestAdminAccessToPartitions(t *testing.T) {
	backend := &inventory.Backend{Name: "test"}
	o := pool.Options{Backend: backend, Features: pool.Features{Counters: true}}
	for _, gpu := range []string{"gpu0", "gpu1"} {
		slices := func(n int64) inventory.ByName[int64] { return inventory.ByName[int64]{{Name: "slices", Value: n}} }
		backend.CounterSets = append(backend.CounterSets, inventory.CounterSet{Name: gpu, Counters: slices(4)})
		for _, size := range []int64{4, 2, 1} {
			d := &inventory.Device{
				Key: inventory.Key{Backend: "test", ID: fmt.Sprintf("%s-%d", gpu, size)}, Parent: gpu, Potential: true, Consumes: []inventory.Consumption{{Set: gpu, Counters: slices(size)}},
			}
			backend.Devices = append(backend.Devices, d)
			o.Devices = append(o.Devices, resource.Device{Device: d, Resource: "example.com/gpu", Verdict: health.Verdict{Healthy: true}})
		}
	}
	r := diagram.Resource{Name: "example.com/gpu", Topology: topology.Prepare(nil, topology.Options{})}
	for _, d := range backend.Devices {
		r.Units = append(r.Units, diagram.Used{Unit: topology.Unit{ID: d.ID, Device: d, Healthy: true}, Held: d.ID == "gpu0-2"})
	}
	inv := written(t, Inventory{Slices: pool.New(o).Objects("test.accelmux.io", "node"), Resources: []diagram.Topology{diagram.Describe(r)}})
	for manifest, want := range map[string][]string{
		claimFor("[{name: gpu, exactly: {deviceClassName: gpu.example.com, adminAccess: true, allocationMode: All}}]", ""): nil,
		claimFor("[{name: gpu, exactly: {deviceClassName: gpu.example.com, adminAccess: true, count: 2}}]",
			", constraints: [{requests: [gpu], distinctAttribute: accelmux.io/parent}]"): {"gpu0-2", "gpu1-4"},
	} {
		all := explain(t, inv, manifest)
		var got []string
		for _, d := range all[0].Devices {
			got = append(got, d.ID)
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", manifest, diff)
		}
	}
}

// explain explains the claims of manifests.
func explain(t *testing.T, inv Inventory, manifests string) []Explanation {
	t.Helper()
	objects, err := Read(strings.NewReader(manifests))
	if err != nil {
		t.Fatal(err)
	}
	all, err := Explain(t.Context(), inv, objects)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// written returns an inventory as it is read from a file.
func written(t *testing.T, inv Inventory) (read Inventory) {
	t.Helper()
	text, err := yaml.Marshal(inv)
	if err == nil {
		err = yaml.UnmarshalStrict(text, &read)
	}
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// withoutTable replaces tables by their devices, sorted.
func withoutTable(text string) string {
	var lines, ids []string
	for line := range strings.Lines(text + "\n") {
		switch fields := strings.Fields(line); {
		case len(fields) == 4 && fields[0] == "REQUEST", strings.HasSuffix(line, " gets\n"):
		case len(fields) == 4 && fields[3] == "test.accelmux.io":
			ids = append(ids, fields[1])
		case len(fields) > 0 || len(ids) > 0:
			if len(ids) > 0 {
				slices.Sort(ids)
				lines, ids = append(lines, strings.Join(ids, " ")), nil
			}
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return strings.Join(slices.DeleteFunc(lines, func(s string) bool { return s == "" }), "\n")
}

// Verifies that what cannot be explained is refused with the reason.
func TestRefused(t *testing.T) {
	inv := published(machines.DGX1())
	for manifest, want := range map[string]string{
		"kind: Pod\n": "the file has no ResourceClaim and no ResourceClaimTemplate of resource.k8s.io/v1",
		claimFor("[{name: gpu, exactly: {deviceClassName: gpus.example.com}}]", ""):                                     `claim train, request gpu: there is no DeviceClass "gpus.example.com": add it to the file; known are gpu.example.com`,
		claimFor("[{name: gpu, exact: {}}]", ""):                                                                        `ResourceClaim train: error unmarshaling JSON: while decoding JSON: json: unknown field "exact"`,
		strings.Replace(claimFor("[]", ""), "/v1", "/v1beta1", 1):                                                       "ResourceClaim train is of resource.k8s.io/v1beta1: only resource.k8s.io/v1 is read",
		claimFor("[{name: gpu, exactly: {deviceClassName: gpu.example.com, selectors: [{cel: {expression: x}}]}}]", ""): "claim train: selector #0: CEL compile error",
	} {
		o, err := Read(strings.NewReader(manifest))
		if err == nil {
			_, err = Explain(t.Context(), inv, o)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := Explain(t.Context(), Inventory{}, Objects{}); err == nil || !strings.Contains(err.Error(), "no device is published") {
		t.Errorf("without slices: %v", err)
	}
}
