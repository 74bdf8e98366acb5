package holders

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/accelmux/accelmux/core/podresources"
)

// Verifies what Find makes of kubelet's lists, and that it asks for one pod where it
// knows which.
func TestFind(t *testing.T) {
	found := podresources.Pod{Namespace: "ns", Name: "p", Units: map[string][]string{"main": {"a", "b"}}}
	for name, c := range map[string]struct {
		pods        []*podresourcesv1.PodResources
		noted       bool
		noGet       bool
		units       []string
		want        podresources.Pod
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
