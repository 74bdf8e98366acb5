package node

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// The three ways of injection on one node: pods get the same of each, and one pod
// may use all three.
func TestWaysOfInjection(t *testing.T) {
	n := begin(t)
	n.install(`
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: mock
        settings: {count: 9}
    resources:
      - {name: example.com/cdi, selector: 'device.attributes["mock"].index < 3'}
      - {name: example.com/annotations, selector: 'device.attributes["mock"].index < 6', injection: cdi-annotations}
      - {name: example.com/plain, injection: plain}
`)
	every := newPod("every", "example.com/cdi", 1)
	var all []string
	for _, way := range []string{"cdi", "annotations", "plain"} {
		resource := "example.com/" + way
		n.wantCounts(resource, 3, 3)
		n.start(way, resource, 2)
		ids := n.held(way, resource)
		if sees := n.inside(way); len(ids) != 2 || !slices.Equal(sees.env, ids) || !slices.Equal(sees.nodes, ids) {
			t.Errorf("%s: the pod has %v, and in its container sees %+v", way, ids, sees)
		}
		every.Spec.Containers[0].Resources.Limits[v1.ResourceName(resource)] = every.Spec.Containers[0].Resources.Limits["example.com/cdi"]
	}
	n.create(every)
	n.wantReady("every")
	for _, way := range []string{"cdi", "annotations", "plain"} {
		all = append(all, n.held("every", "example.com/"+way)...)
	}
	slices.Sort(all)
	if sees := n.inside("every"); len(all) != 3 || !slices.Equal(sees.env, all) || !slices.Equal(sees.nodes, all) {
		t.Errorf("the pod with all three has %v, and in its container sees %+v", all, sees)
	}
}
