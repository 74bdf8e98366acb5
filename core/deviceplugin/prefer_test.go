package deviceplugin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/topology"
)

// pairs are n devices, of which d0 and d2, d1 and d3, d4 and d6 and so on are
// linked.
func pairs(n int) []*inventory.Device {
	var devices []*inventory.Device
	for i := range n {
		d := device(fmt.Sprintf("d%d", i))
		if peer := i ^ 2; peer < n {
			d.Links = []inventory.Link{{Peer: fmt.Sprintf("d%d", peer), Kind: "nvlink", Count: 1}}
		}
		devices = append(devices, d)
	}
	return devices
}

// policy sets the policy of a resource.
func policy(p config.AllocationPolicy) func(*resource.Resource) {
	return func(r *resource.Resource) { r.Allocation.Policy = p }
}

// shared has every device n times.
func shared(n int) func(*resource.Resource) {
	return func(r *resource.Resource) { r.Replicas = n }
}

// served is an advert of a table's one resource that nobody listens to.
func served(t *testing.T, opts Options, all *resource.Table) *advert {
	t.Helper()
	opts.Dir, opts.RegistryDir, opts.Lifecycle = t.TempDir(), t.TempDir(), &recorder{}
	p, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return newAdvert(gpu, newView(all.Resources[0], allNames{"unnamed"}, nil), p)
}

func ask(size int, available string, must ...string) *pluginapi.ContainerPreferredAllocationRequest {
	return &pluginapi.ContainerPreferredAllocationRequest{
		AvailableDeviceIDs: strings.Fields(available), MustIncludeDeviceIDs: must, AllocationSize: int32(size), //nolint:gosec // small
	}
}

// Verifies that kubelet is answered by links and policy; that what must be included
// is, whatever it is; and that nothing else is unhealthy or unknown.
func TestPrefer(t *testing.T) {
	four, sick := pairs(4), pairs(4)
	sick[2] = broken(sick[2])
	for name, tc := range map[string]struct {
		table *resource.Table
		ask   *pluginapi.ContainerPreferredAllocationRequest
		want  string
	}{
		"by links":            {table(four, nil), ask(2, "d3 d2 d1 d0"), "d0 d2"},
		"beside what must be": {table(four, nil), ask(2, "d0 d1 d2 d3", "d3"), "d1 d3"},
		"by order":            {table(four, policy(config.AllocateNone)), ask(2, "d3 d2 d1 d0"), "d0 d1"},
		"unhealthy":           {table(sick, nil), ask(2, "d0 d1 d2 d3"), "d1 d3"},
		"unhealthy, but must": {table(sick, nil), ask(2, "d0 d1 d2 d3", "d2"), "d0 d2"},
		"unknown":             {table(four, nil), ask(2, "d0 gone"), "d0"},
		"unknown, but must":   {table(four, nil), ask(2, "d0 d1", "gone"), "d0 gone"},
		"named twice":         {table(four, nil), ask(3, "d0 d1 d0", "d1", "d1"), "d0 d1"},
		"no CDI name":         {table(append(pairs(2), device("unnamed")), nil), ask(3, "d0 d1 unnamed"), "d0 d1"},
		"replicas spread":     {table(four[:2], shared(3)), ask(2, "d0::0 d0::1 d1::1 d1::2"), "d0::0 d1::1"},
		"replicas, packed":    {table(four[:2], packed(3)), ask(2, "d0::0 d1::0 d1::1 d1::2"), "d1::0 d1::1"},
	} {
		t.Run(name, func(t *testing.T) {
			a := served(t, Options{}, tc.table)
			got := a.prefer(a.view(), tc.ask)
			if diff := cmp.Diff(strings.Fields(tc.want), got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("preferred (-want +got):\n%s", diff)
			}
		})
	}
}

func packed(n int) func(*resource.Resource) {
	return func(r *resource.Resource) { r.Replicas, r.Allocation.Policy = n, config.AllocatePack }
}

// Verifies that the topology is kept over a change of health, which it takes over, and made
// again for another policy.
func TestTopologyIsKept(t *testing.T) {
	first := newView(table(pairs(4), nil).Resources[0], allNames{}, nil)
	devices := pairs(4)
	devices[1] = broken(devices[1])
	sick := newView(table(devices, nil).Resources[0], allNames{}, first).topology
	// What was prepared is what holds the devices that it was prepared of.
	if sick.Devices()[0] != first.topology.Devices()[0] {
		t.Error("a change of health makes a new topology")
	}
	if got := sick.Choose(topology.Request{Available: []string{"d0", "d1"}, Size: 2}).IDs; !slices.Equal(got, []string{"d0"}) {
		t.Errorf("chosen %v with d1 unhealthy", got)
	}
	weakest := newView(table(pairs(4), func(r *resource.Resource) { r.Allocation.Links = config.LinksWeakest }).Resources[0], allNames{}, first)
	if weakest.topology.Devices()[0] == first.topology.Devices()[0] || !choosing(weakest.allocation).WeakestFirst {
		t.Error("another policy makes no new topology")
	}
}

// Verifies that a policy takes effect while kubelet is connected: it is asked for
// its preference only from when there is a choice, without a dip, and is answered by
// the new policy from then on, also where the choice is nobody's any more.
func TestPolicyChangesLive(t *testing.T) {
	n := startNode(t, fast)
	devices := pairs(4)
	n.plugin.Publish(table(devices, policy(config.AllocateNone)), allNames{})
	n.waitAllocatable(4)
	mark := len(n.recorded())
	if n.kubelet.State().Resources[gpu].PreferredAllocation {
		t.Error("kubelet is to ask though nobody chooses")
	}
	n.plugin.Publish(table(devices, nil), allNames{})
	n.waitFor("to be asked", func(s kubelettest.State) bool { return s.Resources[gpu].PreferredAllocation })
	for i, want := range [][]string{{"d0", "d2"}, {"d1", "d3"}} {
		got, err := n.kubelet.Allocate(t.Context(), fmt.Sprintf("p%d", i), "c", gpu, 2)
		if err != nil || !slices.Equal(got.Devices, want) {
			t.Errorf("kubelet allocates %+v, %v; want %v", got, err, want)
		}
	}
	n.plugin.Publish(table(devices, policy(config.AllocateNone)), allNames{})
	n.waitStatus("the policy", func(Status) bool { return !n.plugin.Topology(gpu).Helps() })
	answer, err := n.dial().GetPreferredAllocation(t.Context(), &pluginapi.PreferredAllocationRequest{
		ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{ask(2, "d3 d2 d1 d0"), ask(1, "d2 d1")},
	})
	if err != nil || len(answer.GetContainerResponses()) != 2 ||
		!slices.Equal(answer.GetContainerResponses()[0].GetDeviceIDs(), []string{"d0", "d1"}) ||
		!slices.Equal(answer.GetContainerResponses()[1].GetDeviceIDs(), []string{"d1"}) {
		t.Errorf("answer %v: %v", answer, err)
	}
	for _, e := range n.recorded()[mark:] {
		if e.Capacity != 4 || e.Type == kubelettest.EventBroken {
			t.Errorf("a dip: %+v", e)
		}
	}
}

// lockFree are names that report which locks are held while a view is made.
type lockFree struct {
	t      *testing.T
	plugin *Plugin
	asked  *int
}

func (n lockFree) Qualified(k inventory.Key) (string, error) {
	*n.asked++
	if !n.plugin.mu.TryLock() {
		n.t.Fatal("the plugin is locked while a view is made")
	}
	for _, a := range n.plugin.adverts {
		if !a.mu.TryLock() {
			n.t.Fatal("the resource is locked while its view is made")
		}
		a.mu.Unlock()
	}
	n.plugin.mu.Unlock()
	return "accelmux.io/mock=" + k.ID, nil
}

// Verifies that neither kubelet's calls nor the agent's round wait while the list and the topology of a resource are
// made, which takes 10 ms for 16 devices and longer for thousands of units: no lock is held meanwhile.
func TestViewsAreMadeWithoutLocks(t *testing.T) {
	p, err := New(Options{Dir: t.TempDir(), RegistryDir: t.TempDir(), Lifecycle: &recorder{}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing is registered
	asked := 0
	for n := range 2 { // a new resource, and another view of one
		p.Publish(table(pairs(16+n), nil), lockFree{t, p, &asked})
		var running sync.WaitGroup
		p.apply(ctx, &running)
		running.Wait()
	}
	if asked != 33 {
		t.Errorf("%d names were asked for, want 33", asked)
	}
}
