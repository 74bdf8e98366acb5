package pool

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

var backend = &inventory.Backend{Name: "acme", Description: inventory.Description{Vendor: "Acme", AttributePriority: []string{"model", "a3*"}}}

func device(id string) resource.Device {
	return resource.Device{Device: &inventory.Device{Key: inventory.Key{Backend: "acme", ID: id}, Class: "gpu"}, Verdict: health.Verdict{Healthy: true}}
}

func devices(n int) (all []resource.Device) {
	for i := range n {
		all = append(all, device(fmt.Sprintf("GPU-%d", i)))
	}
	return all
}

func options(features Features, devices ...resource.Device) Options {
	return Options{Backend: backend, Devices: devices, Features: features, Evict: Eviction{On: true}}
}

// Verifies that devices keep their order, in slices of the greatest size that the API server
// accepts, and that a pool without devices has an empty slice.
func TestSlices(t *testing.T) {
	for _, c := range []struct {
		features Features
		devices  int
		sizes    []int
	}{
		{Features{}, 0, []int{0}},
		{Features{}, 128, []int{128}},
		{Features{}, 4096, slicesOf(128, 32)},
		{Features{Taints: true}, 65, []int{64, 1}},
		{Features{Lists: true}, 4096, slicesOf(64, 64)},
	} {
		p := New(options(c.features, devices(c.devices)...))
		var sizes []int
		for _, s := range p.Slices {
			sizes = append(sizes, len(s.Devices))
		}
		if diff := cmp.Diff(c.sizes, sizes); diff != "" {
			t.Errorf("%d devices, %+v (-want +got):\n%s", c.devices, c.features, diff)
		}
		for i, d := range published(p) {
			if id := *d.Attributes["accelmux.io/id"].StringValue; d.Name != fmt.Sprintf("gpu-%d", i) || id != fmt.Sprintf("GPU-%d", i) {
				t.Fatalf("device %d is %s, with the ID %s", i, d.Name, id)
			}
		}
	}
}

// published returns the devices of all slices.
func published(p *Pool) (all []resourceapi.Device) {
	for _, s := range p.Slices {
		all = append(all, s.Devices...)
	}
	return all
}

func slicesOf(size, n int) (all []int) {
	for range n {
		all = append(all, size)
	}
	return all
}

// Verifies that a fault taints its device and changes no other slice; that it evicts only where it
// reaches the holders and the configuration wants that; and that without taints the device is not
// published.
func TestFault(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	all := devices(200)
	before := New(options(Features{Taints: true}, all...))
	faulted := func(reach inventory.Reach, more ...health.Fault) []resource.Device {
		changed := append([]resource.Device(nil), all...)
		changed[100].Verdict = health.Verdict{Faults: append([]health.Fault{{Code: "xid-79", Reach: reach, Since: since}}, more...)}
		return changed
	}
	for _, c := range []struct {
		devices []resource.Device
		evict   bool
		effect  resourceapi.DeviceTaintEffect
		since   time.Time
	}{
		{faulted(inventory.ReachDevice), true, resourceapi.DeviceTaintEffectNoSchedule, since},
		{faulted(inventory.ReachHolders), false, resourceapi.DeviceTaintEffectNoSchedule, since},
		{faulted(inventory.ReachHolders), true, resourceapi.DeviceTaintEffectNoExecute, since},
		{faulted(inventory.ReachDevice, health.Fault{Code: "lesser", Reach: inventory.ReachHolders, Since: since.Add(time.Hour)}), true, resourceapi.DeviceTaintEffectNoExecute, since.Add(time.Hour)},
	} {
		o := options(Features{Taints: true}, c.devices...)
		o.Evict.On = c.evict
		after := New(o)
		for i := range after.Slices {
			if same := cmp.Equal(before.Slices[i], after.Slices[i]); same != (i != 1) {
				t.Errorf("slice %d is the same: %v", i, same)
			}
		}
		taints := after.Slices[1].Devices[36].Taints
		if len(taints) != 1 || taints[0].Key != TaintKey || taints[0].Value != "xid-79" || taints[0].Effect != c.effect || !taints[0].TimeAdded.Time.Equal(c.since.Truncate(time.Second)) {
			t.Errorf("the taints are %+v, want one with %s", taints, c.effect)
		}
	}
	without := published(New(options(Features{}, faulted(inventory.ReachDevice)...)))
	if len(without) != 199 || slices.ContainsFunc(without, func(d resourceapi.Device) bool { return d.Name == "gpu-100" }) {
		t.Errorf("without taints %d devices are published", len(without))
	}
}

// Verifies that the time of a taint is that at which its effect became what it is, as a pod's tolerationSeconds count
// from it: of a device that was unhealthy before, whose fault got worse, that has several faults, and whose faults evict
// only since then.
func TestTimeOfTaint(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC) }
	lesser := health.Fault{Code: "slow", Reach: inventory.ReachDevice, Since: at(1)}
	worse := health.Fault{Code: "worse", Reach: inventory.ReachHolders, Since: at(2), ReachSince: at(5)}
	graver := health.Fault{Code: "dead", Reach: inventory.ReachHolders, Since: at(7), ReachSince: at(7)}
	parents := health.Fault{Code: "lost", Reach: inventory.ReachHolders, Since: at(4), From: "parent"}
	for name, c := range map[string]struct {
		faults []health.Fault
		evict  Eviction
		want   int
	}{
		"a lesser fault":                        {[]health.Fault{lesser}, Eviction{On: true}, 1},
		"a graver one after it":                 {[]health.Fault{lesser, graver}, Eviction{On: true}, 7},
		"the graver one first":                  {[]health.Fault{graver, lesser}, Eviction{On: true}, 7},
		"one that got worse":                    {[]health.Fault{worse}, Eviction{On: true}, 5},
		"two":                                   {[]health.Fault{graver, worse}, Eviction{On: true}, 5},
		"also the parent's":                     {[]health.Fault{graver, lesser, parents, worse}, Eviction{On: true}, 4},
		"evicting later than the fault":         {[]health.Fault{lesser, graver}, Eviction{On: true, Since: at(9)}, 9},
		"evicting since long before":            {[]health.Fault{lesser, graver}, Eviction{On: true, Since: at(0)}, 7},
		"not evicting":                          {[]health.Fault{lesser, graver}, Eviction{}, 1},
		"evicting later than a lesser fault is": {[]health.Fault{lesser}, Eviction{On: true, Since: at(9)}, 1},
	} {
		if got := Taint(health.Verdict{Faults: c.faults}, c.evict).TimeAdded; !got.Time.Equal(at(c.want)) {
			t.Errorf("%s: the taint has the time %v, want %v", name, got, at(c.want))
		}
	}
}

// Verifies that what the cluster cannot have is left out, the least important first, and is a note for each
// reason, whatever the number of devices, and no problem.
func TestOmitted(t *testing.T) {
	var all []resource.Device
	for i := range 3 {
		d := device(fmt.Sprint(i))
		for n := range 40 {
			d.Attributes = append(d.Attributes, inventory.NamedValue[inventory.Attribute]{Name: fmt.Sprintf("a%02d", n), Value: inventory.Attribute{Value: int64(n)}})
		}
		d.Attributes = append(d.Attributes,
			inventory.NamedValue[inventory.Attribute]{Name: "list", Value: inventory.Attribute{Value: []string{"x", "y"}}},
			inventory.NamedValue[inventory.Attribute]{Name: "model", Value: inventory.Attribute{Value: "M1"}})
		d.PCIBusID, d.PCIeRoot, d.NUMANodes = "0000:65:00.0", "pci0000:40", []int{0}
		all = append(all, d)
	}
	p := New(options(Features{}, all...))
	attributes := p.Slices[0].Devices[2].Attributes
	if len(attributes) != 32 || attributes["model"].StringValue == nil || attributes["list"].StringValues != nil || attributes["resource.kubernetes.io/pcieRoot"].StringValue == nil {
		t.Errorf("the attributes are %v", attributes)
	}
	var left []string
	for n := 15; n < 30; n++ { // a30 to a39 are more important
		left = append(left, fmt.Sprintf("attribute a%02d", n))
	}
	want := []string{
		"not published: " + strings.Join(left, ", ") + ", attribute list and 2 more: a device has at most 32 attributes and capacities",
	}
	if diff := cmp.Diff(want, p.Notes); diff != "" || len(p.Problems) > 0 {
		t.Errorf("problems %v, notes (-want +got):\n%s", p.Problems, diff)
	}
}

// Verifies that the NUMA node, the PCI address and the PCIe root have the names and types by which a
// claim matches devices of all vendors' drivers, and no other names; and that a device of several NUMA
// nodes, or of none that is known, has no NUMA node.
func TestNUMANodeMatchesThatOfOtherDrivers(t *testing.T) {
	for name, c := range map[string]struct {
		nodes []int
		want  []string
	}{
		"one":     {[]int{1}, []string{"resource.kubernetes.io/numaNode=1"}},
		"several": {[]int{0, 1}, nil},
		"none":    {nil, nil},
	} {
		d := device("GPU-0")
		d.PCIBusID, d.PCIeRoot, d.NUMANodes = "0000:65:00.0", "pci0000:40", c.nodes
		var got []string
		for name, value := range New(options(Features{}, d)).Slices[0].Devices[0].Attributes {
			switch {
			case strings.HasPrefix(string(name), config.FactsDomain):
			case value.IntValue != nil:
				got = append(got, fmt.Sprintf("%s=%d", name, *value.IntValue))
			default:
				got = append(got, fmt.Sprintf("%s=%s", name, *value.StringValue))
			}
		}
		slices.Sort(got)
		want := append(c.want, "resource.kubernetes.io/pciBusID=0000:65:00.0", "resource.kubernetes.io/pcieRoot=pci0000:40")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("NUMA nodes %s (-want +got):\n%s", name, diff)
		}
	}
}

// Verifies that without the features a shared device has one holder, and a potential device is not
// published, which is a problem.
func TestShares(t *testing.T) {
	shared, potential := device("shared"), device("potential")
	shared.Shareable, potential.Potential = true, true
	shared.Capacities = inventory.ByName[int64]{{Name: "memory", Value: 1 << 30}, {Name: "powerLimit", Value: 300}}
	shared.Policies = inventory.ByName[inventory.RequestPolicy]{{Name: "memory", Value: inventory.RequestPolicy{Default: 1 << 20}}}
	for _, shares := range []bool{true, false} {
		p := New(options(Features{Shares: shares}, shared, potential, potential))
		published := p.Slices[0].Devices
		if len(published) != 1 || (published[0].AllowMultipleAllocations != nil) != shares || (published[0].Capacity["memory"].RequestPolicy != nil) != shares {
			t.Errorf("with shares %v: %+v", shares, published)
		}
		if len(p.Problems) != 1 || p.Problems[0].Device != "potential" || !strings.Contains(p.Problems[0].Message, "DRAPartitionableDevices); also 1 other devices") || len(p.Notes) > 0 {
			t.Errorf("problems %v, notes %v, want one problem", p.Problems, p.Notes)
		}
		if memory := published[0].Capacity["memory"].Value; memory.String() != "1Gi" {
			t.Errorf("the capacity is %s, want 1Gi", memory.String())
		}
		// The scheduler takes all of a capacity without a policy for a claim that requests none of it.
		if policy := published[0].Capacity["powerLimit"].RequestPolicy; (policy != nil) != shares || shares && (!policy.Default.IsZero() || policy.ValidRange.Max.Value() != 300) {
			t.Errorf("with shares %v the policy of a capacity that is not shared is %v", shares, policy)
		}
	}
}
