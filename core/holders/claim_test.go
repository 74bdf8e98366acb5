package holders

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/google/go-cmp/cmp"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	"pgregory.net/rapid"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/podresources"
)

func claimOf(name string) Claim {
	return Claim{Driver: "driver", UID: types.UID("uid-" + name), Namespace: "ns", Name: name}
}

// recordOf is that of a claim with these devices.
func recordOf(claim Claim, ids ...string) *ClaimRecord {
	c := &ClaimRecord{Claim: claim}
	for _, id := range ids {
		c.Devices = append(c.Devices, ClaimDevice{Request: "a", Pool: "node", Name: id, Backend: "mock", ID: id, CDI: cdi.ClaimName(key(id), string(claim.UID))})
	}
	return c
}

func whole(ids ...string) (all []ClaimedDevice) {
	for _, id := range ids {
		all = append(all, ClaimedDevice{Device: key(id)})
	}
	return all
}

// Verifies that a claim holds its devices until it ends, whatever kubelet lists; that no other
// holder gets them meanwhile; and that its end is sent once, with the claim.
func TestClaim(t *testing.T) {
	k := newKubelet()
	b := open(t, k, options(t, k))
	must(t, b.TakeClaim(t.Context(), claimOf("x"), whole("a", "b")))
	must(t, b.TakeClaim(t.Context(), claimOf("x"), whole("a", "b"))) // again
	if err := b.TakeClaim(t.Context(), claimOf("y"), whole("c", "b")); err == nil || !strings.Contains(err.Error(), "ns/x") {
		t.Errorf("a device of another claim: %v", err)
	}
	if err := b.Take(t.Context(), gpu, []Unit{unitOf("b::1")}); err == nil || !strings.Contains(err.Error(), "ns/x") {
		t.Errorf("a replica of a claim's device: %v", err)
	}
	if b.Held(key("c")) {
		t.Error("a claim that was refused has a device")
	}
	k.pass(2 * time.Hour)
	poll(t, b)
	k.pass(2 * time.Hour)
	poll(t, b)
	if !b.Held(key("a")) || !b.Held(key("b")) {
		t.Error("a list of kubelet's pods ended a claim")
	}
	allocate(t, b, "c")
	if err := b.TakeClaim(t.Context(), claimOf("y"), whole("c")); err == nil || !strings.Contains(err.Error(), gpu) {
		t.Errorf("a device of a container: %v", err)
	}
	for range 2 {
		b.endClaim(ClaimID{"driver", "uid-x"}, anyDevice)
	}
	ref := Ref{KindClaim, "uid-x"}
	if d := cmp.Diff([]Ended{{ref, key("a")}, {ref, key("b")}}, b.unsent()); d != "" || b.Held(key("a")) {
		t.Errorf("ended (-want +got):\n%s", d)
	}
	must(t, b.TakeClaim(t.Context(), claimOf("y"), whole("a")))
}

// anyDevice has the end of each device stored.
func anyDevice(inventory.Key) bool { return true }

// Verifies that the containers which kubelet lists with a claim are those of its devices.
func TestClaimListed(t *testing.T) {
	k := newKubelet()
	b := open(t, k, options(t, k))
	must(t, b.TakeClaim(t.Context(), claimOf("x"), whole("a")))
	listed := pod("p")
	listed.Containers[0].DynamicResources = []*podresourcesv1.DynamicResource{{ClaimNamespace: "ns", ClaimName: "x"}}
	other := pod("q")
	other.Containers[0].DynamicResources = []*podresourcesv1.DynamicResource{{ClaimNamespace: "elsewhere", ClaimName: "x"}}
	k.pass(time.Second)
	k.shows(listed, other)
	poll(t, b)
	all := b.AllocationsOf(key("a"))
	if len(all) != 1 || all[0].Claim == nil || all[0].Claim.Name != "x" || !cmp.Equal(all[0].Containers, []podresources.Container{{Namespace: "ns", Pod: "p", Name: "main"}}) {
		t.Errorf("the allocations are %+v", all)
	}
	k.shows()
	poll(t, b)
	if all := b.AllocationsOf(key("a")); len(all) != 1 || len(all[0].Containers) > 0 {
		t.Errorf("without its pod: %+v", all)
	}
}

// Verifies that after a restart the record's claims hold their devices, that a device of a claim
// that ended is released, and that a claim that was to end but is still in the record is not.
func TestClaimRestored(t *testing.T) {
	k := newKubelet()
	opts := options(t, k)
	b := open(t, k, opts)
	for _, name := range []string{"stays", "ended", "ending"} {
		must(t, b.TakeClaim(t.Context(), claimOf(name), whole(name)))
		must(t, b.Claims().Put(recordOf(claimOf(name), name)))
	}
	if _, err := b.Claims().End(ClaimID{"driver", "uid-ended"}, anyDevice); err != nil {
		t.Fatal(err)
	}
	b.endClaim(ClaimID{"driver", "uid-ending"}, anyDevice)
	must(t, b.Store()) // as before the record is changed
	b = open(t, k, opts)
	if !b.Held(key("stays")) || !b.Held(key("ending")) || b.Held(key("ended")) {
		t.Error("the claims of the record do not hold their devices")
	}
	if d := cmp.Diff([]Ended{{Ref{KindClaim, "uid-ended"}, key("ended")}}, b.unsent()); d != "" {
		t.Errorf("ended (-want +got):\n%s", d)
	}
}

// Verifies that what two drivers serve of one claim ends apart.
func TestClaimOfTwoDrivers(t *testing.T) {
	k := newKubelet()
	b := open(t, k, options(t, k))
	one, other := claimOf("x"), claimOf("x")
	one.Driver, other.Driver = "one.example.com", "other.example.com"
	must(t, b.TakeClaim(t.Context(), one, whole("a")))
	must(t, b.TakeClaim(t.Context(), other, whole("b")))
	b.endClaim(one.ID(), anyDevice)
	if b.Held(key("a")) || !b.Held(key("b")) {
		t.Errorf("held are a: %v, b: %v", b.Held(key("a")), b.Held(key("b")))
	}
}

// Verifies that a claim does not get a device again before the end of its last use of it is done, and
// that another claim is not affected.
func TestClaimAwaitsRelease(t *testing.T) {
	k := newKubelet()
	b := open(t, k, options(t, k))
	must(t, b.TakeClaim(t.Context(), claimOf("x"), whole("a")))
	b.endClaim(ClaimID{"driver", "uid-x"}, anyDevice)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.TakeClaim(ctx, claimOf("x"), whole("b", "a")); err == nil || !strings.Contains(err.Error(), "mock/a was not released") {
		t.Errorf("the error is %v", err)
	}
	must(t, b.TakeClaim(t.Context(), claimOf("x"), whole("b")))
	taken := make(chan error, 1)
	go func() { taken <- b.TakeClaim(t.Context(), claimOf("x"), whole("a")) }()
	b.Released(b.unsent()...)
	must(t, <-taken)
}

// cdiClaim is a pod with a claim that has these CDI names.
func cdiClaim(name, claim string, names ...string) *podresourcesv1.PodResources {
	p := pod(name)
	resource := &podresourcesv1.ClaimResource{DriverName: "driver"}
	for _, n := range names {
		resource.CdiDevices = append(resource.CdiDevices, &podresourcesv1.CDIDevice{Name: n})
	}
	p.Containers[0].DynamicResources = []*podresourcesv1.DynamicResource{{ClaimNamespace: "ns", ClaimName: claim, ClaimResources: []*podresourcesv1.ClaimResource{resource}}}
	return p
}

// Verifies that a claim whose devices are not known holds those that kubelet lists for it, without a
// moment in which a device with an old definition is free, until it ends.
func TestClaimUnread(t *testing.T) {
	k := newKubelet()
	opts := options(t, k)
	dir := filepath.Join(filepath.Dir(opts.Path), "claims")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "driver_uid-x"), []byte("damaged"), 0o600))
	b := open(t, k, opts)
	b.Suspect(key("a"))
	if err := b.TakeClaim(t.Context(), claimOf("y"), whole("b")); err != nil {
		t.Fatal(err)
	}
	k.pass(time.Second)
	k.shows(cdiClaim("p", "x", cdi.ClaimName(key("a"), "uid-x"), cdi.ClaimName(key("c"), "uid-z"), "other"))
	poll(t, b)
	if all := b.AllocationsOf(key("a")); len(all) != 1 || *all[0].Claim != claimOf("x") {
		t.Errorf("the allocations are %+v", all)
	}
	if err := b.TakeClaim(t.Context(), claimOf("y"), whole("a")); err == nil || !strings.Contains(err.Error(), "ns/x") {
		t.Errorf("its device for another claim: %v", err)
	}
	if b.Held(key("c")) {
		t.Error("a device of another claim is held")
	}
	b.endClaim(ClaimID{"driver", "uid-x"}, anyDevice)
	poll(t, b)
	if b.Held(key("a")) || len(endedKeys(b)) != 1 {
		t.Error("after its end it has devices, or they are not released")
	}
}

// Verifies that for any sequence of calls no device has two holders, but for shares of claims and
// for units of one resource.
func TestClaimsExclude(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := newKubelet()
		b, err := Open(Options{Path: "/nonexistent/usage", BootID: "b", Kubelet: podresources.New(podresources.Options{Socket: "/nowhere"}), Now: k.clock,
			Resolve: func(string, string) (inventory.Key, bool) { return inventory.Key{}, false }})
		if err != nil {
			t.Fatal(err)
		}
		device := rapid.SampledFrom([]string{"a", "b"})
		name := rapid.SampledFrom([]string{"x", "y", "z"})
		shared := map[string]bool{} // by claim and device
		for range rapid.IntRange(1, 12).Draw(t, "calls") {
			switch id := device.Draw(t, "device"); rapid.IntRange(0, 2).Draw(t, "call") {
			case 0:
				unit := Unit{ID: fmt.Sprintf("%s::%d", id, rapid.IntRange(0, 1).Draw(t, "replica")), Device: key(id)}
				_ = b.Take(t.Context(), gpu, []Unit{unit})
			case 1:
				c := claimOf(name.Draw(t, "claim"))
				d := ClaimedDevice{Device: key(id), Shared: rapid.Bool().Draw(t, "shared")}
				if before, ok := shared[c.Name+id]; ok {
					d.Shared = before // a claim's allocation does not change
				}
				if b.TakeClaim(t.Context(), c, []ClaimedDevice{d}) == nil {
					shared[c.Name+id] = d.Shared
				}
			case 2:
				c := name.Draw(t, "claim")
				b.endClaim(ClaimID{"driver", types.UID("uid-" + c)}, anyDevice)
				b.Released(b.unsent()...)
				delete(shared, c+"a")
				delete(shared, c+"b")
			}
			for _, all := range b.Allocations() {
				for _, one := range all {
					for _, other := range all {
						bothUnits := one.Claim == nil && other.Claim == nil
						bothShares := one.Claim != nil && other.Claim != nil && shared[one.Claim.Name+one.Device.ID] && shared[other.Claim.Name+one.Device.ID]
						if one.Unit != other.Unit && !bothUnits && !bothShares {
							t.Fatalf("%+v and %+v have one device", one, other)
						}
					}
				}
			}
		}
	})
}

// Verifies that claims get shares of a device as long as it has enough of each capacity, also after a restart:
// the scheduler allocates the share of a claim again that was deleted, though its pods run.
func TestSharesOfADevice(t *testing.T) {
	k := newKubelet()
	b := open(t, k, options(t, k))
	share := func(memory, compute int64) []ClaimedDevice {
		return []ClaimedDevice{{
			Device: key("a"), Shared: true, Amounts: map[string]int64{"memory": memory, "compute": compute},
			Capacities: map[string]int64{"memory": 80, "compute": 100, "powerLimit": 300},
		}}
	}
	before := recordOf(claimOf("x"), "a")
	before.Devices[0].Share, before.Devices[0].Amounts = "share", map[string]int64{"memory": 40, "compute": 10}
	b.Claims().Expect(before)
	for _, c := range []struct {
		claim string
		take  []ClaimedDevice
		want  string
	}{
		{"y", share(41, 10), "device mock/a has 40 left of its capacity memory, which is less than the claim's share: the claims ns/x have the rest"},
		{"y", share(40, 91), "has 90 left of its capacity compute"},
		{"y", share(40, 10), ""},
		{"y", share(40, 10), ""}, // again
		{"z", share(1, 0), "the claims ns/x, ns/y have the rest"},
	} {
		err := b.TakeClaim(t.Context(), claimOf(c.claim), c.take)
		if _, ok := errors.AsType[*SharesError](err); ok != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s takes %v: %v, want %q", c.claim, c.take[0].Amounts, err, c.want)
		}
	}
	b.endClaim(ClaimID{"driver", claimOf("x").UID}, func(inventory.Key) bool { return false })
	b.unsent()
	b.Released(Ended{claimOf("x").ref(), key("a")})
	if err := b.TakeClaim(t.Context(), claimOf("z"), share(40, 0)); err != nil {
		t.Errorf("after the end of x: %v", err)
	}
}

// Verifies the owner of a device that a claim has: the claim before kubelet lists its containers, and
// what these have in common afterwards; of two claims that share the device, their namespace.
func TestOwnerOfClaim(t *testing.T) {
	k := newKubelet()
	b := open(t, k, options(t, k))
	share := []ClaimedDevice{{Device: key("a"), Shared: true}}
	must(t, b.TakeClaim(t.Context(), claimOf("x"), share))
	using := func(pod, container, claim string) *podresourcesv1.PodResources {
		return &podresourcesv1.PodResources{Namespace: "ns", Name: pod, Containers: []*podresourcesv1.ContainerResources{{
			Name: container, DynamicResources: []*podresourcesv1.DynamicResource{{ClaimNamespace: "ns", ClaimName: claim}},
		}}}
	}
	for _, c := range []struct {
		when string
		pods []*podresourcesv1.PodResources
		want Owner
	}{
		{"no container is listed", nil, Owner{Namespace: "ns", Claim: "x"}},
		{"one container", []*podresourcesv1.PodResources{using("p", "main", "x")}, Owner{"ns", "p", "main", "x"}},
		{"two of a pod", []*podresourcesv1.PodResources{using("p", "main", "x"), using("p", "side", "x")}, Owner{"ns", "p", "", "x"}},
		{"two of two pods", []*podresourcesv1.PodResources{using("p", "main", "x"), using("q", "main", "x")}, Owner{"ns", "", "", "x"}},
	} {
		k.pass(time.Second)
		k.shows(c.pods...)
		poll(t, b)
		if got := b.OwnerOf(key("a")); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.when, got, c.want)
		}
	}
	must(t, b.TakeClaim(t.Context(), claimOf("y"), share))
	if got, want := b.OwnerOf(key("a")), (Owner{Namespace: "ns"}); got != want {
		t.Errorf("two claims: %+v, want %+v", got, want)
	}
	other := Claim{UID: "uid-z", Namespace: "elsewhere", Name: "x"}
	must(t, b.TakeClaim(t.Context(), other, share))
	if got := b.OwnerOf(key("a")); got != (Owner{}) {
		t.Errorf("claims of two namespaces: %+v", got)
	}
}

// Verifies that no claim gets a device of which only kubelet's pods can tell who has it, unless it is
// the claim that had it.
func TestClaimOfASuspect(t *testing.T) {
	k := newKubelet()
	b := open(t, k, options(t, k))
	device := key("a")
	b.Suspect(device)
	devices := []ClaimedDevice{{Device: device}}
	if err := b.TakeClaim(t.Context(), Claim{Driver: "d", UID: "new", Namespace: "ns", Name: "new"}, devices); err == nil {
		t.Error("another claim has the device")
	}
	b.claims.unreadable[ClaimID{"d", "old"}] = "damaged"
	if err := b.TakeClaim(t.Context(), Claim{Driver: "d", UID: "old", Namespace: "ns", Name: "old"}, devices); err != nil {
		t.Errorf("the claim that had it: %v", err)
	}
}
