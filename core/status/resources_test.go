package status

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/conflict"
	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/podresources"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/status/listing"
)

// draFactsOf are those of factsOf with the resource served by dynamic resource allocation: a claim
// that two pods use has the healthy device.
func draFactsOf(t *testing.T) Facts {
	t.Helper()
	f := factsOf(t)
	f.Round.Profile.Backends[0].DRA.Driver = "gpu.example.com"
	f.Round.Table.Resources[0].API = config.APIDRA
	f.Kubelet.Resources = nil
	f.Drivers = []Driver{{Name: "gpu.example.com", Backend: "mock", Devices: 2, Registered: true, Published: true}}
	f.Allocations = map[inventory.Key][]holders.Allocation{{Backend: "mock", ID: "a"}: {{
		Unit: "uid-x/mock/a", Claim: &holders.Claim{UID: "uid-x", Namespace: "ns", Name: "x"},
		Containers: []podresources.Container{{Namespace: "ns", Pod: "p", Name: "main"}, {Namespace: "ns", Pod: "q", Name: "main"}},
	}}}
	return f
}

// Verifies the entry of a resource of dynamic resource allocation, and that nothing of the device
// plugin API is reported of it.
func TestResourcesOfDRA(t *testing.T) {
	registered := []deviceplugin.Status{{Resource: "ex.com/a", State: deviceplugin.StateServing, Unlisted: true, Notes: []string{"the list was cut"}}}
	want := Resource{Name: "ex.com/a", API: "dra", State: "serving", Units: 2, Healthy: 1, Allocated: 1}
	for name, c := range map[string]struct {
		change func(*Facts)
		want   func(*Resource)
	}{
		"published": {func(*Facts) {}, func(*Resource) {}},
		"not published": {
			func(f *Facts) { f.Drivers[0].Published = false },
			func(r *Resource) { r.State = "waiting" },
		},
		"the driver is not started": {
			func(f *Facts) { f.Drivers = nil },
			func(r *Resource) { r.State = "waiting" },
		},
		"without devices": {
			func(f *Facts) { f.Round.Table.Resources[0].Devices, f.Drivers = nil, nil },
			func(r *Resource) { r.State, r.Units, r.Healthy, r.Allocated = "empty", 0, 0, 1 },
		},
		"two claims share the device": {
			func(f *Facts) {
				key := inventory.Key{Backend: "mock", ID: "a"}
				f.Allocations[key] = append(f.Allocations[key], holders.Allocation{Unit: "uid-y/mock/a", Claim: &holders.Claim{UID: "uid-y"}})
			},
			func(*Resource) {},
		},
		"a unit has the device": {
			func(f *Facts) {
				f.Allocations[inventory.Key{Backend: "mock", ID: "a"}] = []holders.Allocation{{Resource: "ex.com/a", Unit: "a"}}
			},
			func(*Resource) {},
		},
		"never registered": {
			func(f *Facts) {
				f.Kubelet.Resources = []deviceplugin.Status{{Resource: "ex.com/a", State: deviceplugin.StateEmpty}}
			},
			func(*Resource) {},
		},
		"registered before": {
			func(f *Facts) { f.Kubelet.Resources = registered },
			func(r *Resource) {
				r.Note = "served by dynamic resource allocation now: it stays registered with kubelet, without devices, until the agent ends"
			},
		},
	} {
		f, want := draFactsOf(t), want
		c.change(&f)
		c.want(&want)
		if diff := cmp.Diff([]Resource{want}, f.Report().Resources); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Verifies that a claim's device in a resource of the device plugin API is counted as allocated.
func TestClaimOfPluginResource(t *testing.T) {
	f := draFactsOf(t)
	f.Round.Table.Resources[0].API = config.APIDevicePlugin
	f.Kubelet.Resources = []deviceplugin.Status{{Resource: "ex.com/a", State: deviceplugin.StateServing}}
	if r := f.Report().Resources; len(r) != 1 || r[0].API != "devicePlugin" || r[0].Allocated != 1 {
		t.Errorf("%+v", r)
	}
}

// Verifies that an agent is connected to kubelet with a driver whose slices the API server does not
// accept: the agent before it can end.
func TestConnectedWithoutAPIServer(t *testing.T) {
	f := draFactsOf(t)
	f.Drivers[0].Published, f.Drivers[0].Problem = false, "the API server does not answer"
	if missing := f.NotConnected(); len(missing) > 0 {
		t.Errorf("missing %q", missing)
	}
	f.Drivers[0].Registered = false
	if missing := f.NotConnected(); len(missing) != 1 {
		t.Errorf("missing %q, want the registration of the driver", missing)
	}
}

// Verifies what keeps a node with dynamic resource allocation from being ready, and that what
// kubelet's device plugin API has of the resource does not.
func TestNotReadyForDRA(t *testing.T) {
	const (
		waiting      = "the API server has not accepted the devices of driver gpu.example.com of backend mock yet"
		unregistered = "kubelet has not accepted driver gpu.example.com of backend mock yet"
		notStarted   = unregistered + ", and the API server has not accepted its devices"
	)
	for name, c := range map[string]struct {
		change func(*Facts)
		want   []string
	}{
		"published": {func(*Facts) {}, nil},
		"another driver's plugin has the name": {func(f *Facts) {
			f.Kubelet.Conflicts = []conflict.Conflict{{Resource: "ex.com/a", Message: "it is old"}}
		}, nil},
		"not yet":        {func(f *Facts) { f.Drivers[0].Published = false }, []string{waiting}},
		"refused":        {func(f *Facts) { f.Drivers[0].Published, f.Drivers[0].Problem = false, "forbidden" }, []string{waiting + ": forbidden"}},
		"not registered": {func(f *Facts) { f.Drivers[0].Registered = false }, []string{unregistered}},
		"without an API server": {func(f *Facts) {
			f.Drivers[0] = Driver{Name: "gpu.example.com", Backend: "mock", Problem: "--kubeconfig is missing"}
		}, []string{notStarted + ": --kubeconfig is missing"}},
		"not started": {func(f *Facts) { f.Drivers[0].Name = "mock.accelmux.io" }, []string{notStarted}},
		"once for two resources": {func(f *Facts) {
			f.Drivers = nil
			second := *f.Round.Table.Resources[0]
			f.Round.Table.Resources = append(f.Round.Table.Resources, &second)
		}, []string{notStarted}},
		"no devices":         {func(f *Facts) { f.Round.Table.Resources[0].Devices, f.Drivers = nil, nil }, nil},
		"an unneeded driver": {func(f *Facts) { f.Drivers = append(f.Drivers, Driver{Name: "old.example.com", Backend: "mock"}) }, nil},
		"held without a device": {func(f *Facts) {
			f.Round.Table.Resources[0] = &resource.Resource{Resource: f.Round.Table.Resources[0].Resource, Held: true}
		}, nil},
	} {
		f := draFactsOf(t)
		c.change(&f)
		if diff := cmp.Diff(append([]string{}, c.want...), f.NotReady()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Verifies that a resource of the device plugin API that kubelet is not to have yet keeps no node from being ready, for as long
// as claims have its devices; and that one that kubelet is to have does.
func TestReadyDuringAMove(t *testing.T) {
	const missing = "kubelet has not accepted resource ex.com/a yet"
	for name, c := range map[string]struct {
		hooks, extended bool
		want            []string
	}{
		"claims of an extended resource have prepared devices": {true, true, nil},
		"the devices are not prepared":                         {false, true, []string{missing}},
		"the claims are not of an extended resource":           {true, false, []string{missing}},
	} {
		f := draFactsOf(t)
		r := f.Round.Table.Resources[0]
		r.API = config.APIDevicePlugin
		for i := range r.Devices {
			d := *r.Devices[i].Device
			d.Hooks.Prepare = c.hooks
			r.Devices[i].Device = &d
		}
		for _, all := range f.Allocations {
			all[0].Claim.Extended = c.extended
		}
		before := *f.Round
		before.ForKubelet, _ = round.ForDevicePlugin(f.Round.Table, f.Allocations, nil)
		f.Round = round.New(before)
		f.Kubelet.Resources = []deviceplugin.Status{{Resource: "ex.com/a", State: deviceplugin.StateEmpty}}
		if diff := cmp.Diff(append([]string{}, c.want...), f.NotReady()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Verifies that drivers are in the report, and their problems among the problems.
func TestDriversOfReport(t *testing.T) {
	f := draFactsOf(t)
	before := len(f.Report().Problems)
	f.Drivers[0].Published, f.Drivers[0].Problem = false, "the API server refused a slice"
	report := f.Report()
	if diff := cmp.Diff(f.Drivers, report.Drivers); diff != "" {
		t.Errorf("drivers (-want +got):\n%s", diff)
	}
	want := Problem{Backend: "mock", Message: "driver gpu.example.com: the API server refused a slice"}
	if len(report.Problems) != before+1 || !slices.ContainsFunc(report.Problems, func(p Problem) bool { return cmp.Equal(p, want) }) {
		t.Errorf("problems %v, want %v among them", report.Problems, want)
	}
}

// Verifies that a claim is a holder with its pods and the resource that the device belongs to, also
// before kubelet lists a pod, and that its internal unit is not shown.
func TestClaimIsAHolder(t *testing.T) {
	f := draFactsOf(t)
	want := []listing.Holder{
		{Namespace: "ns", Claim: "x", Pod: "p", Container: "main", Resource: "ex.com/a"},
		{Namespace: "ns", Claim: "x", Pod: "q", Container: "main", Resource: "ex.com/a"},
	}
	if diff := cmp.Diff(want, f.devices()[0].Holders); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
	f.Allocations[inventory.Key{Backend: "mock", ID: "a"}][0].Containers = nil
	if diff := cmp.Diff([]listing.Holder{{Namespace: "ns", Claim: "x", Resource: "ex.com/a"}}, f.devices()[0].Holders); diff != "" {
		t.Errorf("holders before a pod is listed (-want +got):\n%s", diff)
	}
}
