package dra

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/dra/pool"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/podresources"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/test/patience"
)

// bookIn is the book of a directory.
func bookIn(t *testing.T, dir string) *holders.Book {
	t.Helper()
	b, err := holders.Open(holders.Options{
		Path: filepath.Join(dir, "usage"), BootID: "boot", Kubelet: podresources.New(podresources.Options{Socket: "/nowhere"}),
		Resolve: func(string, string) (inventory.Key, bool) { return inventory.Key{}, false },
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func record(t *testing.T, dir string) *holders.Claims {
	t.Helper()
	return bookIn(t, dir).Claims()
}

// frontend is a Frontend that runs until the test's end.
func frontend(t *testing.T, server *apiServer, dir string) *Frontend {
	t.Helper()
	all := record(t, dir)
	f := NewFrontend(Options{NodeName: node, BootID: "boot", KubeletRootDir: dir, CDIDir: filepath.Join(dir, "cdi"), Lifecycle: &fakeLifecycle{record: all}, Record: all})
	f.linger = time.Second // a driver that ends does not answer any more
	if server != nil {
		f.opts.Client = server
	}
	done := make(chan error)
	go func() { done <- f.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return f
}

// roundOf is a round with a resource for each of these APIs, gpu-0, gpu-1 and so on, of the backend
// mock, and a backend that has nothing.
func roundOf(apis []config.API, devices ...[]resource.Device) *round.Round {
	p := &config.Profile{Backends: []config.Backend{
		{Name: "mock", DRA: config.DRA{Driver: driverName}}, {Name: "other", DRA: config.DRA{Driver: "other.accelmux.io"}},
	}}
	table, listed := &resource.Table{}, &inventory.Backend{Name: "mock"}
	for i, api := range apis {
		r := config.Resource{Name: fmt.Sprintf("example.com/gpu-%d", i), API: api}
		p.Resources = append(p.Resources, r)
		own := &resource.Resource{Resource: r}
		table.Resources = append(table.Resources, own)
		for _, d := range devices[i] {
			d.Resource = r.Name
			own.Devices = append(own.Devices, d)
			listed.Devices = append(listed.Devices, d.Device)
		}
	}
	return round.New(round.Round{
		Profile: p, Table: table, Health: &health.View{}, Snapshot: &inventory.Snapshot{Backends: []*inventory.Backend{listed, {Name: "other"}}},
	})
}

// held returns a device that a container has by the device plugin API.
func held(d resource.Device) resource.Device {
	table := &resource.Table{Resources: []*resource.Resource{{Resource: config.Resource{Name: "r", API: config.APIDRA}, Devices: []resource.Device{d}}}}
	reasons := round.Allocated(nil, table, map[inventory.Key][]holders.Allocation{d.Key: {{Resource: "r", Unit: d.ID}}})
	return round.WithVerdicts(table, &health.View{}, reasons).Resources[0].Devices[0]
}

// Verifies that a driver publishes the devices of the resources with its API and no others, each
// with the name of its resource; that a device which a container has by the device plugin API is
// withheld; and that a driver that is no longer configured deletes its slices, but serves on while
// it has claims.
func TestFrontend(t *testing.T) {
	t.Parallel()
	server, dir := newAPIServer(), t.TempDir()
	f := frontend(t, server, dir)
	both := []config.API{config.APIDRA, config.APIDevicePlugin}
	f.Publish(roundOf(both, []resource.Device{device("GPU-0"), unhealthy("GPU-1"), held(device("GPU-3"))}, []resource.Device{device("GPU-2")}))
	server.want(t, "one resource", driverName+": gpu-0 gpu-1(hot)")
	list, err := server.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if name := list.Items[0].Spec.Devices[0].Attributes["accelmux.io/resource"].StringValue; name == nil || *name != "example.com/gpu-0" {
		t.Errorf("the resource of gpu-0 is %v", name)
	}
	until(t, func() bool { return f.Status()[0].Published }, func() any { return f.Status() })
	f.Publish(roundOf(both, nil, []resource.Device{device("GPU-2")}))
	server.want(t, "no device", driverName+":")

	c := &holders.ClaimRecord{Claim: holders.Claim{Driver: driverName, UID: "uid", Namespace: "ns", Name: "c"}, Devices: []holders.ClaimDevice{{Request: "a", Pool: node, Name: "gpu-0", Backend: "mock", ID: "GPU-0", CDI: "mock.accelmux.io/holder=GPU-0::uid"}}}
	if err := f.opts.Record.Put(c); err != nil {
		t.Fatal(err)
	}
	plugin := roundOf([]config.API{config.APIDevicePlugin}, []resource.Device{device("GPU-2")})
	f.Publish(plugin)
	server.want(t, "a claim is left", driverName+":")
	if s := f.Status()[0]; s.Claims != 1 || s.Devices != 0 || s.Slices != 1 {
		t.Errorf("with a claim and no devices: %+v", s)
	}
	if err := f.opts.Lifecycle.EndClaim(c.ID()); err != nil {
		t.Fatal(err)
	}
	server.want(t, "withdrawn")
	if s := f.Status(); len(s) > 0 {
		t.Errorf("the drivers are %v", s)
	}
}

// Verifies that a claim whose resource has moved to the device plugin API can be prepared again after a
// reboot, and that the health of its devices is still reported, though they are not published.
func TestClaimOfAMovedResource(t *testing.T) {
	t.Parallel()
	server, dir := newAPIServer(), t.TempDir()
	before := &holders.ClaimRecord{
		Claim: holders.Claim{Driver: driverName, UID: "one", Namespace: "ns", Name: "one"}, Prepared: true, BootID: "an earlier boot",
		Devices: []holders.ClaimDevice{{Request: "a", Pool: node, Name: "gpu-0", Backend: "mock", ID: "GPU-0", CDI: "mock.accelmux.io/holder=GPU-0::one"}},
	}
	if err := record(t, dir).Put(before); err != nil {
		t.Fatal(err)
	}
	f := frontend(t, server, dir)
	held := device("GPU-0")
	held.Verdict = health.Verdict{Faults: []health.Fault{{Code: "held-elsewhere"}}}
	f.Publish(roundOf([]config.API{config.APIDevicePlugin}, []resource.Device{held, device("GPU-1")}))
	server.want(t, "moved", driverName+":")
	f.mu.Lock()
	driver := f.drivers[driverName].driver
	f.mu.Unlock()
	if driver.opts.Metadata {
		t.Error("containers get metadata files, which the backend's configuration does not have")
	}
	if report, _ := driver.healthReport(); len(report.Devices) != 1 || report.Devices[0].DeviceName != "gpu-0" || report.Devices[0].Health != kubeletplugin.HealthStatusHealthy {
		t.Errorf("the health of %+v is reported", report.Devices)
	}
	results, err := driver.PrepareResourceClaims(t.Context(), []*resourceapi.ResourceClaim{claimOf("one")})
	if err != nil || results["one"].Err != nil {
		t.Errorf("the claim is not prepared again: %v, %v", err, results["one"].Err)
	}
}

// Verifies that the devices of a node are not published before each of its backends has reported: an
// autoscaler would take what is missing for a reason to add another node.
func TestAutoscalerSeesAllDevicesOfANodeOrNone(t *testing.T) {
	t.Parallel()
	server := newAPIServer()
	f := frontend(t, server, t.TempDir())
	incomplete := roundOf([]config.API{config.APIDRA}, []resource.Device{device("GPU-0")})
	incomplete.Snapshot.Backends = incomplete.Snapshot.Backends[:1]
	f.Publish(incomplete)
	until(t, func() bool { return len(f.Status()) == 1 }, func() any { return f.Status() })
	if got := server.published(t); len(got) > 0 {
		t.Errorf("published are %q", got)
	}
	f.Publish(roundOf([]config.API{config.APIDRA}, []resource.Device{device("GPU-0")}))
	server.want(t, "complete", driverName+": gpu-0")
}

// Verifies that without taints in the cluster an unhealthy device leaves the slices, also if the
// API server loses the feature later, and that what the server refuses is not ready, is a problem,
// and is published as soon as it is accepted.
func TestFeatures(t *testing.T) {
	t.Parallel()
	server := newAPIServer()
	f := frontend(t, server, t.TempDir())
	dra := []config.API{config.APIDRA}
	f.Publish(roundOf(dra, []resource.Device{device("GPU-0"), unhealthy("GPU-1")}))
	server.want(t, "with taints", driverName+": gpu-0 gpu-1(hot)")
	server.set(false, "")
	f.Publish(roundOf(dra, []resource.Device{device("GPU-0"), unhealthy("GPU-1"), unhealthy("GPU-2")}))
	server.want(t, "without", driverName+": gpu-0")
	until(t, func() bool { return f.Status()[0].Published }, func() any { return f.Status() })

	server.set(false, "accelmux.io/id")
	f.Publish(roundOf(dra, []resource.Device{device("GPU-0"), device("GPU-5")}))
	until(t, func() bool { s := f.Status()[0]; return !s.Published && strings.Contains(s.Problem, "invalid") }, func() any { return f.Status() })
	server.set(false, "")
	server.want(t, "accepted", driverName+": gpu-0 gpu-5")
	until(t, func() bool { s := f.Status()[0]; return s.Published && s.Problem == "" }, func() any { return f.Status() })
}

// Verifies that the devices of a driver which the agent before this one had under another name are gone when those of
// its new name are there, and that the slices of other drivers stay: of a vendor's, and of one that another program
// serves.
func TestDriverRenamedWhileTheAgentWasDown(t *testing.T) {
	t.Parallel()
	server, dir := newAPIServer(), t.TempDir()
	add := func(driver, attribute string) {
		t.Helper()
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{GenerateName: "old-"}, Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: new(node), Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1},
			Devices: []resourceapi.Device{{Name: "gpu-0", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{resourceapi.QualifiedName(attribute): {StringValue: new("GPU-0")}}}},
		}}
		if _, err := server.ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	add("old.accelmux.io", "accelmux.io/id")
	add("gpu.example.com", "uuid")
	add("served.accelmux.io", "accelmux.io/id")
	served := filepath.Join(dir, "plugins", "served.accelmux.io", "dra.sock")
	if err := os.MkdirAll(filepath.Dir(served), 0o700); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("unix", served)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	f := frontend(t, server, dir)
	f.linger = linger
	incomplete := roundOf([]config.API{config.APIDRA}, []resource.Device{device("GPU-0")})
	incomplete.Snapshot.Backends = incomplete.Snapshot.Backends[:1]
	f.Publish(incomplete)
	until(t, func() bool { return len(f.Status()) == 2 }, func() any { return f.Status() })
	if published := server.published(t); !slices.Contains(published, "old.accelmux.io: gpu-0") {
		t.Errorf("before the devices are published under the new name, published are %q", published)
	}
	f.Publish(roundOf([]config.API{config.APIDRA}, []resource.Device{device("GPU-0")}))
	server.want(t, "renamed", "gpu.example.com: gpu-0", driverName+": gpu-0", "old.accelmux.io:", "served.accelmux.io: gpu-0")
}

// Verifies that a driver whose sockets were removed makes them again, under kubelet's directories.
func TestSocketsAreMadeAgain(t *testing.T) {
	t.Parallel()
	server, dir := newAPIServer(), t.TempDir()
	f := frontend(t, server, dir)
	f.Publish(roundOf([]config.API{config.APIDRA}, []resource.Device{device("GPU-0")}))
	server.want(t, "started", driverName+": gpu-0")
	for _, path := range []string{filepath.Join(dir, "plugins", driverName, "dra.sock"), filepath.Join(dir, "plugins_registry", driverName+"-reg.sock")} {
		there := func() bool { _, err := os.Stat(path); return err == nil }
		until(t, there, func() any { return path + " is not there" }) // the driver may be starting again
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		until(t, there, func() any { return path + " is not there again" })
	}
}

// Verifies that a driver without devices and claims is there for a while after its last claim and
// after it was configured, and as long as kubelet has a claim to unprepare.
func TestDriverStaysForKubelet(t *testing.T) {
	for name, c := range map[string]struct {
		needed time.Time
		called bool
		want   bool
	}{
		"just ended":   {time.Now(), false, true},
		"ended":        {time.Now().Add(-2 * linger), false, false},
		"never needed": {time.Time{}, false, false},
		"not prepared": {time.Time{}, true, true},
	} {
		f := NewFrontend(Options{Record: record(t, t.TempDir()), KubeletRootDir: t.TempDir(), Client: newAPIServer()})
		f.drivers["gone"], f.needed["gone"] = &slot{}, c.needed
		if c.called {
			f.opts.Record.Called(holders.ClaimID{Driver: "gone", UID: "uid"})
		}
		if _, got := f.wanted(roundOf(nil))["gone"]; got != c.want {
			t.Errorf("%s: the driver stays: %v, want %v", name, got, c.want)
		}
		f.wanted(roundOf([]config.API{config.APIDRA}, []resource.Device{device("GPU-0")}))
		if p, ok := f.wanted(roundOf(nil))[driverName]; !ok || len(p.Devices) > 0 {
			t.Errorf("a driver that was configured until now stays: %v, with the devices %v", ok, p.Devices)
		}
	}
}

// Verifies that a driver that is not configured any more ends when its last claim has ended, whoever ended it: kubelet, or
// the Reconciler for a kubelet that never calls to unprepare it, also one whose file cannot be read; and that it stays
// for a claim that could not be prepared, of which only kubelet's call is known.
func TestDriverEndsWithItsLastClaim(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(t *testing.T, r *rig, k *reconciler, d *Driver)
		want bool
	}{
		"none has ended it": {func(*testing.T, *rig, *reconciler, *Driver) {}, true},
		"kubelet": {func(t *testing.T, _ *rig, _ *reconciler, d *Driver) {
			if results, err := d.UnprepareResourceClaims(t.Context(), []kubeletplugin.NamespacedObject{{UID: "uid-x"}}); err != nil || results["uid-x"] != nil {
				t.Error(results, err)
			}
		}, false},
		"the Reconciler": {func(t *testing.T, r *rig, k *reconciler, _ *Driver) {
			err := r.cluster.ResourceV1().ResourceClaims("ns").Delete(t.Context(), "x", metav1.DeleteOptions{})
			if err := errors.Join(err, k.End(t.Context(), holders.ClaimID{Driver: driverName, UID: "uid-x"})); err != nil {
				t.Error(err)
			}
		}, false},
		"a preparation that failed": {func(t *testing.T, _ *rig, _ *reconciler, d *Driver) {
			if err := d.opts.Lifecycle.EndClaim(holders.ClaimID{Driver: driverName, UID: "uid-x"}); err != nil {
				t.Error(err)
			}
		}, true},
	} {
		r, k := newReconciler(t)
		d := &Driver{
			opts: Options{Name: driverName, NodeName: node, BootID: r.boot, Lifecycle: r.lifecycle, Record: r.opts.Record, Answered: func(Call, string, time.Duration, error) {}},
			log:  slog.New(slog.DiscardHandler), devices: map[string]resource.Device{"gpu-0": device("GPU-0")}, publication: Publication{Backend: mock},
		}
		r.allocate(t, "x", nil, result("a", "gpu-0"))
		x, err := r.cluster.ResourceV1().ResourceClaims("ns").Get(t.Context(), "x", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if results, err := d.PrepareResourceClaims(t.Context(), []*resourceapi.ResourceClaim{x}); err != nil || results["uid-x"].Err != nil {
			t.Fatal(results, err)
		}
		c.end(t, r, k, d)
		f := NewFrontend(Options{Record: r.opts.Record, KubeletRootDir: t.TempDir(), Client: r.cluster})
		f.linger = 0
		f.drivers[driverName] = &slot{driver: d}
		if _, got := f.wanted(roundOf(nil))[driverName]; got != c.want {
			t.Errorf("ended by %s: the driver stays: %v, want %v", name, got, c.want)
		}
	}
}

// Verifies that faults which were there before evict pods only from the moment on at which the configuration has that.
func TestEvictionTurnedOn(t *testing.T) {
	d := &Driver{}
	if e := eviction(d, true); !e.On || !e.Since.IsZero() {
		t.Errorf("at the start: %+v", e)
	}
	d.publication = Publication{Backend: mock}
	on := eviction(d, true)
	if !on.On || on.Since.IsZero() {
		t.Errorf("turned on: %+v", on)
	}
	if d.publication.Evict = on; eviction(d, true) != on {
		t.Errorf("later: %+v, want %+v", eviction(d, true), on)
	}
	if off := eviction(d, false); off != (pool.Eviction{}) {
		t.Errorf("turned off: %+v", off)
	}
}

// Verifies that slices which the API server alters are a problem, and are not written again and
// again.
func TestAlteredSlices(t *testing.T) {
	t.Parallel()
	server := newAPIServer()
	server.altered = "accelmux.io/id"
	f := frontend(t, server, t.TempDir())
	f.Publish(roundOf([]config.API{config.APIDRA}, []resource.Device{device("GPU-0")}))
	until(t, func() bool { s := f.Status(); return len(s) == 1 && strings.Contains(s[0].Problem, "dropped") }, func() any { return f.Status() })
	backoff.Sleep(t.Context(), 2*time.Second)
	server.mu.Lock()
	defer server.mu.Unlock()
	if server.writes > 30 {
		t.Errorf("%d writes in about 2 s", server.writes)
	}
}

// Verifies that another program that takes the driver's sockets is reported and keeps them, and that
// a driver which could not make all its sockets starts when it can.
func TestOtherSockets(t *testing.T) {
	t.Parallel()
	server, dir := newAPIServer(), t.TempDir()
	registration := filepath.Join(dir, "plugins_registry", driverName+"-reg.sock")
	if err := os.MkdirAll(filepath.Join(registration, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	f := frontend(t, server, dir)
	f.Publish(roundOf([]config.API{config.APIDRA}, []resource.Device{device("GPU-0")}))
	until(t, func() bool { s := f.Status(); return len(s) == 1 && s[0].Problem != "" }, func() any { return f.Status() })
	if err := os.RemoveAll(registration); err != nil {
		t.Fatal(err)
	}
	server.want(t, "started", driverName+": gpu-0")
	path := filepath.Join(dir, "plugins", driverName, "dra.sock")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	until(t, func() bool { return strings.Contains(f.Status()[0].Problem, "another program serves") }, func() any { return f.Status() })
	connection, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the other program's socket is gone: %v", err)
	}
	_ = connection.Close()
}

// Verifies that a driver is not started beside another program's driver of the same name, with a
// problem, and is started when that one is gone; and that without an API server nothing is served,
// with a problem.
func TestCannotServe(t *testing.T) {
	t.Parallel()
	server, dir := newAPIServer(), t.TempDir()
	socket := filepath.Join(dir, "plugins", driverName, "dra.sock")
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	f := frontend(t, server, dir)
	r := roundOf([]config.API{config.APIDRA}, []resource.Device{device("GPU-0")})
	f.Publish(r)
	until(t, func() bool {
		s := f.Status()
		return len(s) == 1 && strings.Contains(s[0].Problem, "another program serves")
	}, func() any { return f.Status() })
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	server.want(t, "started", driverName+": gpu-0")

	long := frontend(t, server, filepath.Join(t.TempDir(), strings.Repeat("d", 80)))
	long.Publish(r)
	until(t, func() bool { s := long.Status(); return len(s) == 1 && strings.Contains(s[0].Problem, "at most 107") }, func() any { return long.Status() })

	alone := frontend(t, nil, t.TempDir())
	alone.Publish(r)
	until(t, func() bool {
		s := alone.Status()
		return len(s) == 1 && s[0].Backend == "mock" && strings.Contains(s[0].Problem, "--kubeconfig")
	}, func() any { return alone.Status() })
	if s := alone.Status()[0]; s.Driver != driverName || s.Registered || s.Published {
		t.Errorf("the driver is %+v", s)
	}
}

// Verifies that the status does not wait for kubelet's calls when the drivers are stopped or started
// again.
func TestStatusDuringStop(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(f *Frontend, end func()){
		"stopped": func(_ *Frontend, end func()) { end() },
		"started again": func(f *Frontend, _ func()) {
			r := roundOf([]config.API{config.APIDRA}, []resource.Device{device("GPU-0")})
			r.Profile.Backends[0].DRA.Metadata = true
			f.Publish(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, server := t.TempDir(), newAPIServer()
			f := NewFrontend(Options{NodeName: node, BootID: "boot", KubeletRootDir: dir, Lifecycle: &fakeLifecycle{}, Record: record(t, dir), Client: server})
			ctx, end := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- f.Run(ctx) }()
			f.Publish(roundOf([]config.API{config.APIDRA}, []resource.Device{device("GPU-0")}))
			server.want(t, "started", driverName+": gpu-0")
			f.mu.Lock()
			driver := f.drivers[driverName].driver
			f.mu.Unlock()
			driver.calls.RLock() // as a call does
			stop(f, end)
			<-driver.done
			answered := make(chan []Status, 1)
			go func() { answered <- f.Status() }()
			select {
			case s := <-answered:
				if len(s) != 1 || s[0].Driver != driverName {
					t.Errorf("the drivers are %+v", s)
				}
			case <-time.After(patience.Long):
				t.Error("the status waits for the call")
			}
			driver.calls.RUnlock()
			end()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// Verifies that drivers can be read while they are started again: the race detector sees a slot that is read without
// its lock.
func TestReadWhileStartedAgain(t *testing.T) {
	t.Parallel()
	server := newAPIServer()
	f := frontend(t, server, t.TempDir())
	ended := make(chan struct{})
	var readers sync.WaitGroup
	defer readers.Wait()
	defer close(ended)
	for _, read := range []func(){func() { f.Slices() }, func() { _ = f.running()[driverName] }, func() { f.Status() }} {
		readers.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
					read()
				}
			}
		})
	}
	for i, metadata := range []bool{false, true, false} {
		r := roundOf([]config.API{config.APIDRA}, []resource.Device{device(fmt.Sprintf("GPU-%d", i))})
		r.Profile.Backends[0].DRA.Metadata = metadata
		f.Publish(r)
		server.want(t, "started again", fmt.Sprintf("%s: gpu-%d", driverName, i))
	}
}

// Verifies that a driver which the API server refuses asks it again after pauses that grow, and not
// as often as the drivers are checked.
func TestRefusedDriverAsksSeldom(t *testing.T) {
	server, dir := newAPIServer(), t.TempDir()
	server.denied = errors.New("forbidden")
	synctest.Test(t, func(t *testing.T) {
		d := &Driver{opts: Options{Name: driverName, NodeName: node, Client: server}, log: slog.New(slog.DiscardHandler), published: make(chan struct{})}
		d.publisher = newPublisher(d)
		ctx, cancel := context.WithCancel(t.Context())
		f := &Frontend{
			opts: Options{Client: server, Record: record(t, dir)}, log: d.log, wake: make(chan struct{}, 1),
			drivers: map[string]*slot{driverName: {driver: d}}, order: orders{}, needed: map[string]time.Time{},
		}
		f.binder = newBinder(f)
		f.Publish(roundOf([]config.API{config.APIDRA}, []resource.Device{device("GPU-0")}))
		go d.publisher.run(ctx)
		for range 300 { // 10 min
			f.apply(ctx)
			backoff.Sleep(ctx, checkInterval)
		}
		cancel()
		synctest.Wait()
		if server.probes < 50 || server.probes > 100 {
			t.Errorf("it asked %d times in 10 minutes", server.probes)
		}
	})
}
