package deviceplugin

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// plainNames has a CDI name for each device but the last.
type plainNames struct{ without inventory.Key }

func (n *plainNames) Qualified(key inventory.Key) (string, error) {
	if key == n.without {
		return "", fmt.Errorf("%s has none", key)
	}
	return key.Backend + ".accelmux.io/gpu=" + key.ID, nil
}

// Verifies that a view that is made from the one before it is the one that is made
// from nothing, whatever became of the units.
func TestAmendedView(t *testing.T) {
	amended := 0
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 0))
		names := &plainNames{}
		if seed%3 == 0 {
			names.without = inventory.Key{Backend: "mock", ID: "d5"}
		}
		replicas := 2
		if seed%5 == 0 {
			replicas = blockUnits / 3 // several blocks, the last of them not full
		}
		r := unitsOf(6, replicas)
		var before *view
		for step := range 60 {
			v, want := newView(r, names, before), newView(r, names, nil)
			if before != nil && len(v.listed) > 0 && &v.listed[0] == &before.listed[0] {
				amended++
			}
			compareViews(t, fmt.Sprintf("seed %d, step %d", seed, step), v, want)
			before, r = v, changeUnits(random, r, replicas)
		}
	}
	if amended < 100 {
		t.Errorf("only %d views were made from those before them", amended)
	}
}

func compareViews(t *testing.T, at string, v, want *view) {
	t.Helper()
	same := v.list.same(want.list) && v.list.size == want.list.size && len(v.list.units) == len(want.list.units) &&
		v.healthy == want.healthy && v.unhealthy == want.unhealthy &&
		v.preStart == want.preStart && slices.Equal(v.notes, want.notes) && v.topology.Helps() == want.topology.Helps()
	for i := range min(len(v.list.units), len(want.list.units)) {
		same = same && v.list.units[i].ID == want.list.units[i].ID && v.list.units[i].healthy == want.list.units[i].healthy
	}
	for _, u := range want.all {
		got, ok := v.unit(u.ID)
		same = same && ok && got.healthy == u.healthy && got.why == u.why && got.cdi == u.cdi && got.Device == u.Device
	}
	if !same {
		t.Fatalf("%s: got %+v\nwant %+v", at, v, want)
	}
}

func unitsOf(devices, replicas int) *resource.Resource {
	r := &resource.Resource{Name: "example.com/gpu", Injection: config.InjectCDI, Replicas: replicas}
	for i := range devices {
		d := &inventory.Device{
			Key: inventory.Key{Backend: "mock", ID: fmt.Sprintf("d%d", i)}, Class: "gpu",
			Edits: inventory.Edits{DeviceNodes: []inventory.DeviceNode{{Path: "/dev/x", HostPath: "/dev/x", Permissions: "rw"}}},
		}
		for n := range replicas {
			r.Units = append(r.Units, resource.Unit{ID: fmt.Sprintf("d%d::%d", i, n), Device: d, Verdict: health.Verdict{Healthy: true}})
		}
	}
	return r
}

// changeUnits is what may become of a resource.
func changeUnits(random *rand.Rand, before *resource.Resource, replicas int) *resource.Resource {
	r := *before
	r.Units = slices.Clone(before.Units)
	first := replicas * random.IntN(len(r.Units)/replicas)
	d := *r.Units[first].Device
	units := r.Units[first : first+replicas]
	verdict := units[0].Verdict
	switch random.IntN(10) {
	case 0, 1:
		verdict = health.Verdict{Faults: []health.Fault{{Code: fmt.Sprint("c", random.IntN(2)), Recovery: inventory.RecoverySelf}}}
	case 2, 3:
		verdict = health.Verdict{Healthy: true}
	case 4:
		d.Health.Message = fmt.Sprint(random.IntN(100))
	case 5:
		d.NUMANodes = []int{random.IntN(2)}
	case 6:
		d.Hooks.Prepare = !d.Hooks.Prepare
	case 7:
		d.Edits.AdditionalGIDs = []uint32{random.Uint32N(3)}
	case 8:
		d.Backend = []string{"mock", "other"}[random.IntN(2)]
	case 9:
		return unitsOf(5+random.IntN(3), replicas)
	}
	for i := range units {
		units[i].Device, units[i].Verdict = &d, verdict
	}
	return &r
}

// Verifies that what goes on the wire is what gRPC makes of the message.
func TestListOnTheWire(t *testing.T) {
	for _, count := range []int{0, 1, blockUnits, blockUnits + 1, 3*blockUnits - 1} {
		r := unitsOf(count, 1)
		want := &pluginapi.ListAndWatchResponse{}
		for i := range r.Units {
			r.Units[i].Device.NUMANodes = []int{0, i % 2, 200 * i}[:i%4]
			r.Units[i].Verdict.Healthy = i%7 != 0
		}
		v := newView(r, &plainNames{}, nil)
		for _, u := range v.list.units {
			want.Devices = append(want.Devices, wireDevice(u))
		}
		buffers, err := newListCodec().Marshal(v.list)
		if err != nil {
			t.Fatal(err)
		}
		expected, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if got := buffers.Materialize(); !bytes.Equal(got, expected) || v.list.size != len(expected) {
			t.Errorf("%d units: %d bytes (%d as counted), want %d", count, len(got), v.list.size, len(expected))
		}
	}
}

// wireDevice is an entry of the list as a message.
func wireDevice(u *unit) *pluginapi.Device {
	d := &pluginapi.Device{ID: u.ID, Health: pluginapi.Unhealthy}
	if u.healthy {
		d.Health = pluginapi.Healthy
	}
	// No topology at all if it is unknown: kubelet takes an empty one as a hint.
	if len(u.Device.NUMANodes) > 0 {
		d.Topology = &pluginapi.TopologyInfo{}
		for _, node := range u.Device.NUMANodes {
			d.Topology.Nodes = append(d.Topology.Nodes, &pluginapi.NUMANode{ID: int64(node)})
		}
	}
	return d
}

// Verifies, for lists drawn at random, what counts as a healthy unit that is taken away.
func TestTakesAway(t *testing.T) {
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 3))
		drawn := func(others []*unit) (units []*unit) {
			for i := range 6 {
				switch random.IntN(4) {
				case 0:
				case 1:
					if at := slices.IndexFunc(others, func(u *unit) bool { return u.ID == fmt.Sprint(i) }); at >= 0 {
						units = append(units, others[at])
					}
				default:
					units = append(units, &unit{Unit: resource.Unit{ID: fmt.Sprint(i), Device: &inventory.Device{}}, healthy: random.IntN(5) > 0})
				}
			}
			return units
		}
		was := newList(drawn(nil))
		now := newList(drawn(was.units))
		healthy := map[string]bool{}
		for _, u := range now.units {
			healthy[u.ID] = u.healthy
		}
		want := slices.ContainsFunc(was.units, func(u *unit) bool { return u.healthy && !healthy[u.ID] })
		if got := was.takesAway(now); got != want {
			t.Fatalf("seed %d: takes away: %v, want %v", seed, got, want)
		}
	}
}

// decoded is a list as kubelet gets it.
func decoded(t *testing.T, l list) []*pluginapi.Device {
	t.Helper()
	response := &pluginapi.ListAndWatchResponse{}
	if err := proto.Unmarshal(bytes.Join(l.blocks, nil), response); err != nil {
		t.Fatal(err)
	}
	return response.GetDevices()
}
