// Package claims checks what makes claims that were written for a vendor's DRA driver work here: the
// names, types and values of the attributes of that driver, and its example claims. What a driver
// publishes is taken from its source, which each table names.
package claims

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	"github.com/accelmux/accelmux/core/dra/allocator"
	"github.com/accelmux/accelmux/core/dra/pool"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/topology"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/manifests"
	"github.com/accelmux/accelmux/test/patience"
)

// node is a node whose devices a backend publishes as those of a vendor's driver.
type node struct {
	*pool.Pool
	driver string
	// ids are the devices' IDs by their names.
	ids map[string]string
}

// report returns what a backend reports when it has n devices. They count as healthy: this machine has no nodes of them.
func report(t *testing.T, b sdk.Backend, request *backendv1.ConfigureRequest, n int) (inv *backendv1.Inventory) {
	t.Helper()
	server, err := sdk.NewServer(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := server.Configure(t.Context(), request); err != nil || len(res.GetErrors()) > 0 {
		t.Fatalf("Configure: %v, %v", res, err)
	}
	if !t.Run("watch", func(t *testing.T) { // the backend ends with it
		inv = sdktest.Watch(t, server, time.Minute, patience.Long).Until("the devices", func(inv *backendv1.Inventory) bool {
			return len(inv.GetDevices()) == n
		})
	}) {
		t.FailNow()
	}
	for _, d := range inv.GetDevices() {
		d.Edits, d.Health = nil, nil
	}
	return inv
}

// publish returns a node with what a backend reported.
func publish(t *testing.T, b sdk.Backend, driver string, reported *backendv1.Inventory) node {
	t.Helper()
	name, _ := b.Identity()
	description := manifests.Load(t, filepath.Join("../../backends", name, "manifest.yaml")).Description
	encoded, err := inventory.EncodeReport(reported)
	if err != nil {
		t.Fatal(err)
	}
	store := inventory.NewStore(nil)
	store.Describe(description.Name, description)
	if err := store.Report(description.Name, encoded); err != nil {
		t.Fatal(err)
	}
	return newNode(t, store.Snapshot().Backends[0], driver)
}

// newNode publishes the devices of a backend. The scheduler takes the first that fit, so those of one GPU
// are as far from each other as they can be: what a claim gets depends on its selectors and constraints.
func newNode(t *testing.T, b *inventory.Backend, driver string) node {
	t.Helper()
	if len(b.Problems) > 0 {
		t.Fatalf("problems of the inventory: %v", b.Problems)
	}
	o := pool.Options{
		Backend: b, Features: pool.Features{Taints: true, Shares: true, Counters: true, Binding: true},
	}
	var units []topology.Unit
	count := map[string]int{}
	nth := map[string]int{}
	for _, d := range b.Devices {
		if d.PCIBusID != "" { // without the host's sysfs the inventory does not know the root
			rooted := *d
			rooted.PCIeRoot = "pci" + d.PCIBusID[:7]
			d = &rooted
		}
		o.Devices = append(o.Devices, resource.Device{Device: d, Resource: "vendor.example/gpu", Verdict: health.Verdict{Healthy: true}})
		parent := cmp.Or(d.Parent, d.ID)
		nth[d.ID] = count[parent]
		count[parent]++
		if !d.IsOnDemand() {
			units = append(units, topology.Unit{ID: d.ID, Device: d, Healthy: true})
		}
	}
	slices.SortStableFunc(o.Devices, func(a, b resource.Device) int { return cmp.Compare(nth[a.ID], nth[b.ID]) })
	o.LinkGroups = pool.NewLinkGroups(topology.Prepare(units, topology.Options{}))
	n := node{pool.New(o), driver, map[string]string{}}
	if len(n.Problems) > 0 {
		t.Errorf("healthy devices have problems: %v", n.Problems)
	}
	for _, d := range o.Devices {
		n.ids[d.Name()] = d.ID
	}
	return n
}

// device returns the published device with an ID.
func (n node) device(t *testing.T, id string) resourceapi.Device {
	t.Helper()
	for _, s := range n.Slices {
		for _, d := range s.Devices {
			if n.ids[d.Name] == id {
				return d
			}
		}
	}
	t.Fatalf("device %s is not published; there are %v", id, slices.Sorted(maps.Values(n.ids)))
	return resourceapi.Device{}
}

// has verifies that a device has what the vendor's driver publishes of it: kind and value by name, such as
// "string M1" or "capacity 8".
func (n node) has(t *testing.T, id string, want map[string]string) {
	t.Helper()
	d := n.device(t, id)
	got := map[string]string{}
	for name, a := range d.Attributes {
		got[string(name)] = value(a)
	}
	for name, c := range d.Capacity {
		got[string(name)] = "capacity " + c.Value.String()
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("%s has %s = %q, the vendor's driver %q", id, name, got[name], want[name])
		}
	}
	if n := len(got); n > resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		t.Errorf("%s has %d attributes and capacities", id, n)
	}
}

func value(a resourceapi.DeviceAttribute) string {
	switch {
	case a.StringValue != nil:
		return "string " + *a.StringValue
	case a.VersionValue != nil:
		return "version " + *a.VersionValue
	case a.IntValue != nil:
		return fmt.Sprintf("int %d", *a.IntValue)
	case a.BoolValue != nil:
		return fmt.Sprintf("bool %t", *a.BoolValue)
	}
	return "list"
}

// allocate returns the IDs of the devices that the scheduler gives to a claim, the spec of which is YAML; none if it
// stays Pending. The class has all devices of the driver, as the vendors' charts make it.
func (n node) allocate(t *testing.T, spec string) (ids []string) {
	t.Helper()
	objects, err := allocator.Read(strings.NewReader("{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, spec: {" + spec + "}}"))
	if err != nil {
		t.Fatalf("%v in %s", err, spec)
	}
	class := &resourceapi.DeviceClass{Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{
		{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", n.driver)}},
	}}}
	mig := class.DeepCopy()
	mig.Spec.Selectors[0].CEL.Expression += fmt.Sprintf(` && device.attributes[%q].type == "mig"`, n.driver)
	on := allocator.Node{Name: "node", Slices: n.Objects(n.driver, "node"), Classes: map[string]*resourceapi.DeviceClass{
		n.driver: class, strings.Replace(n.driver, "gpu.", "mig.", 1): mig,
	}}
	results, err := on.Allocate(t.Context(), objects.Claims[0])
	if err != nil {
		t.Fatalf("%v: %s", err, spec)
	}
	for _, r := range results {
		ids = append(ids, n.ids[r.Device])
	}
	return ids
}
