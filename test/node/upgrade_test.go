package node

import (
	"context"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/accelmux/accelmux/core/status"
)

// image are the values for another image of the agent. node.sh imports two: dev,
// and broken, whose backends do not work.
func image(tag string) values {
	return values{"image": values{"repository": "localhost/accelmux", "tag": tag}}
}

// The DaemonSet is upgraded to another image and rolled back; then to one that cannot be
// pulled and to one whose backends do not work, where the rollout stops and is rolled back:
// capacity never dips, in no view, pods run on, and restarts of their containers find their
// devices.
func TestUpgradeNeverDips(t *testing.T) {
	n := begin(t)
	n.must("ctr", "--namespace=k8s.io", "images", "tag", "--force", "localhost/accelmux:dev", "localhost/accelmux:next")
	n.install(eightGPUs)
	n.wantCounts(gpu, 8, 8)
	pod := n.start("one", gpu, 2)
	held := n.held("one", gpu)
	w := n.watch(gpu)

	old := n.agentPod()
	n.upgrade(eightGPUs, image("next"))
	n.wantOneAgent("next")
	if now := n.agentPod(); now.UID == old.UID {
		t.Errorf("after the upgrade the agent's pod is still %s", now.Name)
	}
	n.helm("rollback", "--wait")
	n.wantOneAgent("dev")

	n.helm("upgrade", "--values="+n.values(eightGPUs, image("absent")))
	n.untilAgentPod("waiting for an image that is not there", func(pod *v1.Pod) bool {
		return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c v1.ContainerStatus) bool {
			return c.State.Waiting != nil && strings.Contains(c.State.Waiting.Reason, "Pull")
		})
	})
	n.helm("rollback", "--wait")
	n.wantOneAgent("dev")

	n.upgradeInVain(eightGPUs)
	n.helm("rollback", "--wait")
	n.wantOneAgent("dev")

	w.wantNoDip()
	n.wantUntouched(pod)
	n.restartContainer("one")
	if sees := n.inside("one"); !slices.Equal(sees.nodes, held) {
		t.Errorf("after the upgrades and a restart the container sees %v of its devices %v", sees.nodes, held)
	}
}

// untilAgentPod waits until a pod of the agent is as it should be; what names that.
func (n *node) untilAgentPod(what string, condition func(*v1.Pod) bool) *v1.Pod {
	n.Helper()
	pod, err := until(n.soon(), client.CoreV1().Pods(namespace), fields.Everything(), condition)
	if err != nil {
		n.Fatalf("no pod of the agent is %s: %v", what, err)
	}
	return pod
}

// wantOneAgent waits until there is one pod of the agent, of that image and active.
func (n *node) wantOneAgent(tag string) {
	n.Helper()
	n.eventually("the only agent is of the image "+tag, func() bool {
		list, err := client.CoreV1().Pods(namespace).List(context.Background(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 1 && ready(&list.Items[0]) &&
			strings.HasSuffix(list.Items[0].Spec.Containers[0].Image, ":"+tag)
	})
	n.wantReport("the agent is ready", func(r status.Report) bool { return len(r.NotReady) == 0 })
}

// upgradeInVain upgrades to an agent whose backends do not work, and waits until it has tried them.
func (n *node) upgradeInVain(config string) {
	n.Helper()
	n.helm("upgrade", "--values="+n.values(config, image("broken")))
	n.eventually("the agent whose backends do not work has tried them", func() bool {
		return slices.ContainsFunc(reports(context.Background()), func(r status.Report) bool {
			return r.Role == status.RoleStandby && len(r.NotReady) > 0 && slices.ContainsFunc(r.Backends, func(b status.Backend) bool { return b.LastError != "" })
		})
	})
}
