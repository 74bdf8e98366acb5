package holders

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/accelmux/accelmux/core/inventory"
)

// Verifies what Find makes of kubelet's lists, and that it asks for one pod where it
// knows which.
func TestFind(t *testing.T) {
	found := Pod{Namespace: "ns", Name: "p", Units: map[string][]string{"main": {"a", "b"}}}
	for name, c := range map[string]struct {
		pods        []*podresourcesv1.PodResources
		noted       bool
		noGet       bool
		units       []string
		want        Pod
		err         string
		lists, gets int
	}{
		"by the list":               {pods: []*podresourcesv1.PodResources{pod("p", "b", "a"), pod("q", "c")}, units: []string{"a", "b"}, want: found, lists: 1},
		"some of a container's":     {pods: []*podresourcesv1.PodResources{pod("p", "b", "a")}, units: []string{"b"}, want: found, lists: 1},
		"of another resource":       {pods: []*podresourcesv1.PodResources{podOf("p", "example.com/other", "a", "b")}, units: []string{"a"}, err: "kubelet lists no pod that has a. Kubelet does not list ordinary init containers", lists: 1},
		"nobody":                    {units: []string{"a", "b"}, err: "kubelet lists no pod that has a, b", lists: 1},
		"two pods":                  {pods: []*podresourcesv1.PodResources{pod("p", "a"), pod("q", "b")}, units: []string{"a", "b"}, err: "several pods that have a, b: ns/p and ns/q", lists: 1},
		"a pod that is known":       {pods: []*podresourcesv1.PodResources{pod("p", "a", "b")}, noted: true, units: []string{"a", "b"}, want: found, lists: 1, gets: 1},
		"a kubelet without Get":     {pods: []*podresourcesv1.PodResources{pod("p", "a", "b")}, noted: true, noGet: true, units: []string{"a", "b"}, want: found, lists: 2, gets: 1},
		"one of them is not known":  {pods: []*podresourcesv1.PodResources{pod("p", "a", "b")}, noted: true, units: []string{"a", "x"}, want: found, lists: 2},
		"two are known, not as one": {pods: []*podresourcesv1.PodResources{pod("p", "a"), pod("q", "b")}, noted: true, units: []string{"a", "b"}, err: "several pods", lists: 2},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKubelet()
			b := open(t, k, options(t, k))
			k.shows(c.pods...)
			k.noGet = c.noGet
			if c.noted {
				poll(t, b)
			}
			got, err := b.Find(t.Context(), gpu, c.units)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
			} else if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("%v, found (-want +got):\n%s", err, diff)
			}
			if k.calls != c.lists || k.gets != c.gets {
				t.Errorf("%d lists and %d gets, want %d and %d", k.calls, k.gets, c.lists, c.gets)
			}
		})
	}
}

// Verifies that what is noted of a pod is not believed without kubelet: the unit may
// be another's by now.
func TestFindAfterAReplacement(t *testing.T) {
	k := newKubelet()
	b := open(t, k, options(t, k))
	k.shows(pod("p", "a"))
	poll(t, b)
	k.shows(pod("p", "b"), pod("q", "a"))
	if got, err := b.Find(t.Context(), gpu, []string{"a"}); err != nil || got.Name != "q" {
		t.Errorf("found %v, %v, want pod q", got, err)
	}
	if h := b.AllocationsOf(key("a")); len(h) != 1 || len(h[0].Containers) != 1 || h[0].Containers[0].Pod != "q" {
		t.Errorf("the book did not take in what Find was told: %v", h)
	}
}

// Verifies that Find waits for a kubelet that has just started, no longer than its
// context lasts.
func TestFindWaitsForKubelet(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := newKubelet()
		opts := options(t, k)
		opts.Path, opts.Now = filepath.Join(dir, "usage"), time.Now
		b := open(t, k, opts)
		k.shows(pod("p", "a"))
		k.until = time.Now().Add(8 * time.Second)
		k.realTime = true
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := b.Find(short, gpu, []string{"a"}); err == nil || !strings.Contains(err.Error(), "kubelet has just started") {
			t.Errorf("before kubelet may be asked: %v", err)
		}
		began := time.Now()
		if got, err := b.Find(t.Context(), gpu, []string{"a"}); err != nil || got.Name != "p" || time.Since(began) != 3*time.Second {
			t.Errorf("found %v, %v after %v", got, err, time.Since(began))
		}
	})
}

// Verifies that many who ask at the same time share few lists, each of which began
// after its user asked, and that none is kept for longer.
func TestFindShares(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := newKubelet()
		opts := options(t, k)
		opts.Path, opts.Now = filepath.Join(dir, "usage"), time.Now
		b := open(t, k, opts)
		k.realTime = true
		k.shows(pod("p", "a"))
		k.during = func() { <-time.After(time.Second) }
		var asking sync.WaitGroup
		find := func() {
			if got, err := b.Find(t.Context(), gpu, []string{"a"}); err != nil || got.Name != "p" {
				t.Errorf("found %v, %v", got, err)
			}
		}
		asking.Go(find)
		<-time.After(time.Millisecond)
		k.noGet = true
		for range 63 {
			asking.Go(find)
		}
		asking.Wait()
		if k.calls != 2 {
			t.Errorf("kubelet was asked %d times, want twice", k.calls)
		}
		if b.poller.latest != nil {
			t.Error("the list is kept though nobody waits")
		}
	})
}

// Verifies who counts as another user of a device, when a container is about to start.
func TestStarting(t *testing.T) {
	k := newKubelet()
	b := open(t, k, options(t, k))
	b.unconfirmed.complete = true
	announced := func(units ...string) []Unit {
		var given []Unit
		for _, u := range units {
			c := unitOf(u)
			c.Prepared = true
			given = append(given, c)
		}
		return given
	}
	start := func(what string, want []inventory.Key, units ...string) (failed func()) {
		t.Helper()
		got, failed := b.Starting(gpu, announced(units...))
		if diff := cmp.Diff(want, sharedOf(got)); diff != "" {
			t.Errorf("%s: shared (-want +got):\n%s", what, diff)
		}
		return failed
	}
	shared := []inventory.Key{key("a")}
	take(t, b, gpu, announced("a::0", "a::1", "b::0"))
	failed := start("before the other one starts", nil, "a::0", "b::0")
	start("beside one that starts", shared, "a::1")()
	failed()
	start("after it failed", nil, "a::1")
	start("beside one that runs", shared, "a::0", "b::0")
	start("once more", shared, "a::1")
	take(t, b, gpu, announced("a::1"))
	start("a new holder of a unit has yet to start", nil, "a::0")
	take(t, b, "example.com/other", []Unit{unitOf("b::1")})
	start("under another name, without a word before its start", []inventory.Key{key("b")}, "b::0")
	start("nobody's", nil, "c")

	again := open(t, k, options(t, k))
	again.Suspect(key("a"), key("c"))
	if got, _ := again.Starting(gpu, announced("a::0", "c")); !slices.Equal(sharedOf(got), shared) {
		t.Errorf("after a restart: %v, want the device with replicas, of which not all is known", got)
	}
}

// sharedOf are the devices that another container uses, too.
func sharedOf(starts []Start) []inventory.Key {
	var keys []inventory.Key
	for _, s := range starts {
		for _, d := range s.Devices {
			if d.Shared {
				keys = append(keys, d.Device)
			}
		}
	}
	return keys
}

// Verifies that what an earlier run allocated counts as started: nobody knows.
func TestStartingAfterARestart(t *testing.T) {
	k := newKubelet()
	opts := options(t, k)
	b := open(t, k, opts)
	take(t, b, gpu, []Unit{{ID: "a::0", Device: key("a"), Prepared: true}, {ID: "a::1", Device: key("a"), Prepared: true}})
	allocate(t, b, "c")
	must(t, b.Close())
	b = open(t, k, opts)
	if got, _ := b.Starting(gpu, []Unit{unitOf("a::0"), unitOf("c")}); len(got) != 2 || got[0].Unprepared || !got[1].Unprepared {
		t.Errorf("starts %+v; want c alone unprepared", got)
	}
	for want, units := range map[bool][]string{true: {"c"}, false: {"c", "a::0"}} {
		if b.Unprepared(gpu, units) != want {
			t.Errorf("%q are unprepared: %v", units, !want)
		}
	}
	if b.Unprepared(gpu, []string{"x"}) {
		t.Error("a unit that is not allocated is unprepared")
	}
	if got, _ := b.Starting(gpu, []Unit{{ID: "a::1", Device: key("a"), Prepared: true}}); len(sharedOf(got)) != 1 {
		t.Errorf("shared: %v", got)
	}
}
