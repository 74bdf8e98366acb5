package podresources

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// start runs until stop.
func start(t *testing.T, o *owner) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Verifies that Run lists at the interval and soon when that is asked for, at a distance, and that an owner that is missing is
// gone when a list soon after confirms it.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDouble(pod("p", "a"))
		o := follow(Options{Lister: d})
		stop := start(t, o)
		calls := func(want int) {
			t.Helper()
			synctest.Wait()
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.calls != want {
				t.Errorf("kubelet was asked %d times, want %d", d.calls, want)
			}
		}
		calls(1)
		<-time.After(9 * time.Second)
		calls(1)
		<-time.After(1500 * time.Millisecond)
		calls(2)
		o.Soon()
		calls(2)
		<-time.After(time.Second)
		calls(3)
		d.shows()
		<-time.After(10 * time.Second)
		calls(4)
		if o.is() || !o.presence.Ending() {
			t.Error("one list ended an owner that was listed before")
		}
		<-time.After(2 * time.Second)
		calls(5)
		if !o.is() {
			t.Error("two lists did not end the owner")
		}
		// However many are allocated, the calls keep their distance.
		for range 100 {
			o.Soon()
			synctest.Wait()
		}
		calls(5)
		stop()
	})
}

// Verifies that without kubelet the calls back off, nothing is gone, and the problem is
// cleared when kubelet is back.
func TestRunWithoutKubelet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDouble()
		d.absent = true
		o := follow(Options{Lister: d})
		stop := start(t, o)
		defer stop()
		<-time.After(24 * time.Hour)
		synctest.Wait()
		d.mu.Lock()
		if d.calls < 24*45 || d.calls > 24*60+20 {
			t.Errorf("kubelet was asked %d times in a day", d.calls)
		}
		d.absent = false
		d.mu.Unlock()
		if o.is() {
			t.Error("gone by guess")
		}
		if notes := o.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "stay allocated") {
			t.Errorf("notes %q", notes)
		}
		<-time.After(2 * o.opts.Timing.RetryMax)
		synctest.Wait()
		if notes := o.Notes(); notes != nil {
			t.Errorf("notes %q", notes)
		}
	})
}

// Verifies that Find waits for a kubelet that has just started, no longer than its
// context lasts.
func TestFindWaitsForKubelet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDouble(pod("p", "a"))
		d.until = time.Now().Add(8 * time.Second)
		k := New(Options{Lister: d})
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := k.Find(short, gpu, []string{"a"}, Container{}); err == nil || !strings.Contains(err.Error(), "kubelet has just started") {
			t.Errorf("before kubelet may be asked: %v", err)
		}
		began := time.Now()
		if got, err := k.Find(t.Context(), gpu, []string{"a"}, Container{}); err != nil || got.Name != "p" || time.Since(began) != 3*time.Second {
			t.Errorf("found %v, %v after %v", got, err, time.Since(began))
		}
	})
}

// Verifies that many who ask at the same time share few lists, each of which began
// after its user asked, and that none is kept for longer.
func TestFindShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDouble(pod("p", "a"))
		d.during = func() { <-time.After(time.Second) }
		k := New(Options{Lister: d})
		var asking sync.WaitGroup
		find := func() {
			if got, err := k.Find(t.Context(), gpu, []string{"a"}, Container{}); err != nil || got.Name != "p" {
				t.Errorf("found %v, %v", got, err)
			}
		}
		asking.Go(find)
		<-time.After(time.Millisecond)
		for range 63 {
			asking.Go(find)
		}
		asking.Wait()
		if d.calls != 2 {
			t.Errorf("kubelet was asked %d times, want twice", d.calls)
		}
		if k.latest != nil {
			t.Error("the list is kept though nobody waits")
		}
	})
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

// Verifies that the CDI names of claims are returned as kubelet lists them, and an error while that
// is not known.
func TestListedCDI(t *testing.T) {
	d := newDouble()
	k := New(Options{Lister: d})
	d.shows(cdiClaim("p", "x", "a", "b"), cdiClaim("q", "x", "b"), cdiClaim("r", "z", "c"))
	got, err := k.ListedCDI(t.Context())
	if diff := cmp.Diff(map[string]bool{"a": true, "b": true, "c": true}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	d.up = time.Second
	if got, err := k.ListedCDI(t.Context()); err == nil {
		t.Errorf("of a kubelet that has just started: %v", got)
	}
	d.absent = true
	if got, err := k.ListedCDI(t.Context()); err == nil {
		t.Errorf("without kubelet: %v", got)
	}
}

// Two containers of a pod, and a unit in several entries.
func TestEntriesAreJoined(t *testing.T) {
	p := pod("p", "a", "b")
	p.Containers = append(p.Containers, &podresourcesv1.ContainerResources{
		Name:    "side",
		Devices: []*podresourcesv1.ContainerDevices{{ResourceName: gpu, DeviceIds: []string{"a", "a"}}},
	})
	got := List{Pods: []*podresourcesv1.PodResources{p, nil}}.Units()
	want := map[Unit][]Container{
		{gpu, "a"}: {{"ns", "p", "main"}, {"ns", "p", "side"}},
		{gpu, "b"}: {{"ns", "p", "main"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("units (-want +got):\n%s", diff)
	}
}
