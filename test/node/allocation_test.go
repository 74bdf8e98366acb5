package node

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// Each resource has its capacity; a pod that asks for two devices gets exactly
// two, with variables, device nodes and mounts; another pod gets others; a third
// that asks for more than there are left stays Pending until there are enough.
func TestPodsGetTheirDevices(t *testing.T) {
	n := begin(t)
	n.installWithFiles()
	n.wantCounts(gpu, 6, 6)
	n.wantCounts("example.com/big", 2, 2)

	var all []string
	for _, name := range []string{"one", "two"} {
		n.start(name, gpu, 2)
		ids := n.held(name, gpu)
		if len(ids) != 2 {
			t.Errorf("pod %s asked for 2 devices and has %v", name, ids)
		}
		if sees := n.inside(name); !slices.Equal(sees.env, ids) || !slices.Equal(sees.nodes, ids) {
			t.Errorf("pod %s has the devices %v, and in its container sees %+v", name, ids, sees)
		}
		for _, id := range ids {
			n.exec(name, "test", "-f", "/mnt/"+id)
		}
		all = append(all, ids...)
	}
	if slices.Sort(all); len(slices.Compact(all)) != 4 {
		t.Errorf("the pods share devices: %v", all)
	}

	n.create(newPod("three", gpu, 3))
	n.untilPod("three", "found not to fit", func(pod *v1.Pod) bool {
		return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
			return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable
		})
	})
	n.delete("one")
	n.wantReady("three")
	if ids := n.held("three", gpu); len(ids) != 3 {
		t.Errorf("pod three asked for 3 devices and has %v", ids)
	}
}
