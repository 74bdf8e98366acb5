package dra

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	k8stesting "k8s.io/client-go/testing"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
)

// reconciler is a Reconciler of the rig's record, with a kubelet whose pods have these CDI names.
type reconciler struct {
	*Reconciler
	mu     sync.Mutex // for tests in which Run runs
	listed map[string]bool
	err    error
}

// show changes what kubelet lists while Run runs.
func (k *reconciler) show(listed map[string]bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listed, k.err = listed, err
}

// newReconciler returns a Reconciler, and the rig without a driver that runs.
func newReconciler(t *testing.T) (*rig, *reconciler) {
	t.Helper()
	dir := t.TempDir()
	record := record(t, dir)
	r, k := &rig{lifecycle: &fakeLifecycle{record: record}, cluster: newAPIServer(), dir: dir, boot: "boot-1"}, &reconciler{}
	r.Driver = &Driver{opts: Options{Record: record}}
	k.Reconciler = NewReconciler(ReconcilerOptions{
		Record: r.opts.Record, Lifecycle: r.lifecycle, Client: r.cluster, BootID: r.boot,
		Listed: func(context.Context) (map[string]bool, error) {
			k.mu.Lock()
			defer k.mu.Unlock()
			return k.listed, k.err
		},
		KubeletRootDir: filepath.Join(dir, "kubelet"), CDIDir: filepath.Join(dir, "cdi"),
	})
	return r, k
}

// next is the next round, a minute later; the test has synctest's time.
func (k *reconciler) next(t *testing.T) {
	t.Helper()
	backoff.Sleep(t.Context(), k.opts.Interval)
	k.round(t.Context())
}

// record records a claim with one device.
func (r *rig) record(t *testing.T, name string, change func(*holders.ClaimRecord)) {
	t.Helper()
	c := &holders.ClaimRecord{
		Claim: holders.Claim{Driver: driverName, UID: types.UID("uid-" + name), Namespace: "ns", Name: name}, BootID: r.boot, Prepared: true,
		Devices: []holders.ClaimDevice{{
			Request: "a", Pool: node, Name: "gpu-0", Backend: "mock", ID: "GPU-0", CDI: "mock.accelmux.io/holder=GPU-0::uid-" + name, Edits: []byte(`{"env":["A=b"]}`),
		}},
	}
	if change != nil {
		change(c)
	}
	if err := r.opts.Record.Put(c); err != nil {
		t.Fatal(err)
	}
}

func messages(problems []inventory.Problem) string {
	var all []string
	for _, p := range problems {
		all = append(all, p.Message)
	}
	return strings.Join(all, "; ")
}

// Verifies which claims are ended without kubelet's call: those that ended for the API server in two
// rounds and with which kubelet lists no pod.
func TestReconcile(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*resourceapi.ResourceClaim)
		delete bool
		ends   bool
	}{
		"unchanged":    {change: func(*resourceapi.ResourceClaim) {}},
		"deleted":      {delete: true, ends: true},
		"replaced":     {change: func(c *resourceapi.ResourceClaim) { c.UID = "another" }, ends: true},
		"deallocated":  {change: func(c *resourceapi.ResourceClaim) { c.Status.Allocation = nil }, ends: true},
		"other-device": {change: func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Device = "gpu-1" }, ends: true},
		"other-driver": {change: func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Driver = "other" }, ends: true},
		"no-pod":       {change: func(c *resourceapi.ResourceClaim) { c.Status.ReservedFor = nil }, ends: true},
		"further-pod": {change: func(c *resourceapi.ResourceClaim) {
			c.Status.ReservedFor = append(c.Status.ReservedFor, c.Status.ReservedFor[0])
		}},
		"other-results": {change: func(c *resourceapi.ResourceClaim) {
			c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{Driver: "other"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, k := newReconciler(t)
				r.allocate(t, "x", nil, result("a", "gpu-0"))
				r.record(t, "x", nil)
				there := func(what string, want bool) {
					t.Helper()
					k.next(t)
					if got := r.opts.Record.Get(driverName, "uid-x") != nil; got != want || (len(r.lifecycle.ended) == 0) != want {
						t.Errorf("%s: in the record: %v, ended are %v", what, got, r.lifecycle.ended)
					}
				}
				there("before", true)
				there("before", true)
				if c.delete {
					if err := r.cluster.ResourceV1().ResourceClaims("ns").Delete(t.Context(), "x", metav1.DeleteOptions{}); err != nil {
						t.Fatal(err)
					}
				} else {
					r.change(t, "x", c.change)
				}
				there("first round", true)
				k.listed = map[string]bool{"mock.accelmux.io/holder=GPU-0::uid-x": true}
				there("with a pod", true)
				if got := messages(k.Problems()); strings.Contains(got, "ns/x has ended") != c.ends {
					t.Errorf("the problems are %q", got)
				}
				k.listed, k.err = nil, errors.New("kubelet does not answer")
				there("without kubelet", true)
				k.err = nil
				down := true
				r.cluster.PrependReactor("get", "resourceclaims", func(k8stesting.Action) (bool, runtime.Object, error) {
					return down, nil, errors.New("the API server does not answer")
				})
				there("without the API server", true)
				if got := messages(k.Problems()); !strings.Contains(got, "does not answer") {
					t.Errorf("the problems are %q", got)
				}
				down = false
				there("with both", !c.ends)
				if got := k.Problems(); len(got) > 0 {
					t.Errorf("the problems are %v", got)
				}
			})
		})
	}
}

// Verifies that the API server is asked only about claims with which kubelet lists no pod, also when two
// have one name, and about all if kubelet's pods are not known.
func TestReconcileReads(t *testing.T) {
	r, k := newReconciler(t)
	for _, name := range []string{"used", "unused"} {
		r.allocate(t, name, nil, result("a", "gpu-0"))
		r.record(t, name, nil)
	}
	r.record(t, "earlier", func(c *holders.ClaimRecord) { c.Name = "used" })
	reads := func(what string, want ...string) {
		t.Helper()
		r.cluster.ClearActions()
		k.round(t.Context())
		var got []string
		for _, action := range r.cluster.Actions() {
			if get, ok := action.(k8stesting.GetAction); ok {
				got = append(got, get.GetName())
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: reads (-want +got):\n%s", what, diff)
		}
	}
	k.listed = map[string]bool{"mock.accelmux.io/holder=GPU-0::uid-used": true, "mock.accelmux.io/holder=GPU-0::uid-unused": true}
	reads("of two of a name one is listed", "used")
	k.listed["mock.accelmux.io/holder=GPU-0::uid-earlier"] = true
	reads("all are listed, and one has ended", "used")
	k.listed = nil
	reads("none is listed", "unused", "used", "used")
	k.err = errors.New("kubelet does not answer")
	reads("not known", "unused", "used", "used")
}

// Verifies that a claim which was prepared again between two rounds is not ended, nor when it is found for
// the first time after that to have no pod.
func TestReconcileRace(t *testing.T) { synctest.Test(t, reconcileRace) }

func reconcileRace(t *testing.T) {
	r, k := newReconciler(t)
	r.allocate(t, "x", nil, result("a", "gpu-0"))
	r.record(t, "x", nil)
	pods := func(all []resourceapi.ResourceClaimConsumerReference) func(*resourceapi.ResourceClaim) {
		return func(c *resourceapi.ResourceClaim) { c.Status.ReservedFor = all }
	}
	r.change(t, "x", pods(nil))
	k.round(t.Context())
	asked := 0
	r.cluster.PrependReactor("get", "resourceclaims", func(action k8stesting.Action) (bool, runtime.Object, error) {
		if asked++; asked == 2 { // between the round's first read and the one that counts
			c, err := r.cluster.Tracker().Get(action.GetResource(), "ns", "x")
			if err != nil {
				return true, nil, err
			}
			pods([]resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "next", UID: "next"}})(c.(*resourceapi.ResourceClaim)) //nolint:forcetypeassert // it is one
			return true, c, nil
		}
		return false, nil, nil
	})
	k.next(t)
	if r.opts.Record.Get(driverName, "uid-x") == nil || asked != 2 {
		t.Errorf("a claim of a new pod was ended after %d reads", asked)
	}
	r.change(t, "x", pods([]resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "next", UID: "next"}}))
	k.next(t)
	r.change(t, "x", pods(nil))
	k.next(t)
	if r.opts.Record.Get(driverName, "uid-x") == nil {
		t.Error("a claim was ended when it was found once that its next pod is gone")
	}
}

// Verifies that a claim of an earlier boot is ended at once if it has ended for the API server, whatever
// kubelet lists, and stays if not.
func TestReconcileAfterReboot(t *testing.T) {
	r, k := newReconciler(t)
	earlier := func(c *holders.ClaimRecord) { c.BootID = "boot-0" }
	r.record(t, "gone", earlier)
	r.record(t, "stays", earlier)
	r.allocate(t, "stays", nil, result("a", "gpu-0"))
	k.listed = map[string]bool{"mock.accelmux.io/holder=GPU-0::uid-gone": true, "mock.accelmux.io/holder=GPU-0::uid-stays": true}
	k.round(t.Context())
	if diff := cmp.Diff([]string{"uid-gone"}, r.lifecycle.ended); diff != "" || len(k.Problems()) > 0 {
		t.Errorf("%v, ended are (-want +got):\n%s", k.Problems(), diff)
	}
}

// Verifies that a device which was made for a claim that the record lost is released, once kubelet has
// listed no pod with the claim for a while; and that one of a recorded or unreadable claim is not.
func TestDeviceMadeForAnUnknownClaimIsReleased(t *testing.T) { synctest.Test(t, madeForUnknown) }

func madeForUnknown(t *testing.T) {
	r, k := newReconciler(t)
	r.allocate(t, "known", nil, result("a", "gpu-0"))
	r.record(t, "known", nil)
	gpu := func(id string) inventory.Key { return inventory.Key{Backend: "mock", ID: id} }
	r.lifecycle.made = map[inventory.Key]string{gpu("GPU-0"): "uid-known", gpu("GPU-1"): "uid-lost"}
	ended := func(what string, want ...string) {
		t.Helper()
		k.next(t)
		if diff := cmp.Diff(want, r.lifecycle.ended); diff != "" {
			t.Errorf("%s: ended are (-want +got):\n%s", what, diff)
		}
	}
	k.listed = map[string]bool{"mock.accelmux.io/holder=GPU-1::uid-lost": true}
	ended("with a pod")
	ended("with a pod")
	k.listed, k.err = nil, errors.New("kubelet does not answer")
	ended("kubelet is not known")
	k.err = nil
	ended("without a pod, once")
	ended("without a pod", "uid-lost GPU-1")
}

// Verifies what is restored at a start: devices and definitions of claims of this boot, devices alone of
// those of another and of those whose preparation or end did not finish, and the claim of a file that
// cannot be read; and that definitions that could not be written are written later.
func TestRestore(t *testing.T) { synctest.Test(t, restore) }

func restore(t *testing.T) {
	r, k := newReconciler(t)
	r.record(t, "good", nil)
	r.record(t, "earlier", func(c *holders.ClaimRecord) { c.BootID = "boot-0" })
	r.record(t, "unfinished", func(c *holders.ClaimRecord) {
		c.Prepared = false
		c.Devices[0].ID, c.Devices[0].Share = "GPU-1", "share"
		c.Devices = append(c.Devices, c.Devices[0]) // another share of it
	})
	dir := t.TempDir()
	if err := errors.Join(os.CopyFS(dir, os.DirFS(r.dir)), os.WriteFile(filepath.Join(dir, "claims", driverName+"_uid-bad"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	book := bookIn(t, dir)
	r.opts.Record = book.Claims()
	k.opts.Record, r.lifecycle.record = r.opts.Record, r.opts.Record
	for _, c := range r.opts.Record.All() {
		r.allocate(t, c.Name, nil, result("a", c.Devices[0].Name))
	}
	r.change(t, "unfinished", func(c *resourceapi.ResourceClaim) {
		share := c.Status.Allocation.Devices.Results[0]
		share.ShareID = new(types.UID("share"))
		c.Status.Allocation.Devices.Results = []resourceapi.DeviceRequestAllocationResult{share, share}
	})
	r.lifecycle.defineErr = errors.New("disk full")
	k.Restore()
	var got []string
	for device, all := range book.Allocations() {
		for _, a := range all {
			got = append(got, device.String()+" "+a.Claim.String())
		}
	}
	slices.Sort(got)
	want := []string{"mock/GPU-0 ns/earlier", "mock/GPU-0 ns/good", "mock/GPU-1 ns/unfinished"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("restored are (-want +got):\n%s", diff)
	}
	if got := messages(k.Problems()); !strings.Contains(got, "ns/good") || !strings.Contains(got, "disk full") || strings.Contains(got, "unfinished") {
		t.Errorf("the problems are %q", got)
	}
	r.lifecycle.defineErr = nil
	k.next(t)
	if defined := r.lifecycle.defined; len(defined) != 1 || defined[0].UID != "uid-good" {
		t.Errorf("defined are %+v", defined)
	}
	k.listed = map[string]bool{"mock.accelmux.io/holder=GPU-0::uid-bad": true}
	k.next(t)
	k.next(t)
	if len(r.opts.Record.Unreadable()) != 1 {
		t.Error("a claim that kubelet lists was ended")
	}
	k.listed, k.err = nil, errors.New("kubelet does not answer")
	k.next(t)
	k.next(t)
	if len(r.opts.Record.Unreadable()) != 1 {
		t.Error("a claim was ended while kubelet does not answer")
	}
	k.err = nil
	k.next(t)
	k.next(t)
	if got := messages(append(k.Problems(), r.opts.Record.Problems()...)); got != "" || cmp.Diff([]string{"uid-bad"}, r.lifecycle.ended) != "" {
		t.Errorf("the problems are %q, ended are %v", got, r.lifecycle.ended)
	}
}

// Verifies that a driver that is not configured runs for a claim whose file cannot be read, until
// kubelet has unprepared it.
func TestUnreadableClaimHasDriver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "claims"), 0o700), os.WriteFile(filepath.Join(dir, "claims", "gone.example.com_uid-x"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	f := frontend(t, newAPIServer(), dir)
	f.Publish(roundOf(nil))
	var d *Driver
	until(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		if s := f.drivers["gone.example.com"]; s != nil {
			d = s.driver
		}
		return d != nil
	}, func() any { return f.Status() })
	if err := d.unprepare(t.Context(), "uid-x"); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return len(f.Status()) == 0 }, func() any { return f.Status() })
}
