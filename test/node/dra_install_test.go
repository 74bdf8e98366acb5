package node

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/accelmux/accelmux/core/status"
)

// Half of the devices by the device plugin API, half by claims.
const bothAPIs = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: mock
        settings: {count: 8, numaNodes: 2, scenarioFile: /run/play/scenario.yaml}
    resources:
      - name: example.com/gpu
        api: dra
        selector: device.attributes["mock"].index < 4
      - name: example.com/plugin
`

// Verifies that a device plugin and a driver on one node give out no device twice, whatever
// restarts, and that each device is offered by one API.
func TestDevicePluginAndDriverGiveOutNoDeviceTwice(t *testing.T) {
	const plugin = "example.com/plugin"
	n := begin(t)
	n.install(bothAPIs)
	n.wantCounts(plugin, 4, 4)
	n.wantPublished(4)
	n.startClaiming("claim-1", 2)
	n.start("plugin-1", plugin, 2)
	n.kill("accelmux")
	n.wantRegistered(plugin, 4)
	n.startClaiming("claim-2", 2)
	n.start("plugin-2", plugin, 2)
	var all []string
	for _, pod := range []string{"claim-1", "claim-2", "plugin-1", "plugin-2"} {
		all = append(all, n.inside(pod).nodes...)
	}
	if slices.Sort(all); !slices.Equal(all, allMocks()) {
		t.Errorf("the pods have %v", all)
	}
	n.create(newPod("more", plugin, 1))
	n.wantUnschedulable("more")
	n.claim(newClaim("more-claimed", 1, ""))
	n.create(claimingPod("more-claimed", "more-claimed"))
	n.wantUnschedulable("more-claimed")
	n.wantReport("nothing is wrong", func(r status.Report) bool { return len(r.Problems) == 0 })
}

// Verifies that with the chart uninstalled pods with claims run on, also after a restart of a
// container, that a pod that is deleted meanwhile ends when the chart is installed again, and that the
// container of one that is deleted by force ends at once.
func TestUninstallWithClaims(t *testing.T) {
	n := begin(t)
	n.install(eightClaimed)
	n.wantPublished(8)
	for _, name := range []string{"one", "two", "forced"} {
		n.startClaiming(name, 2)
	}
	held := n.wantClaimed("one")
	t.Cleanup(func() {
		if t.Failed() { // without the driver, pods would not end
			n.must("kubectl", "delete", "pods", "--namespace="+pods, "--all", "--force", "--grace-period=0")
		}
	})
	n.uninstall()
	n.restartContainer("one")
	if sees := n.inside("one"); !slices.Equal(sees.nodes, held) {
		t.Errorf("after the uninstallation and a restart the container sees %v of its devices %v", sees.nodes, held)
	}
	err := client.CoreV1().Pods(pods).Delete(n.soon(), "two", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.untilPod("two", "waiting for its claim's end", func(pod *v1.Pod) bool {
		return len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].State.Terminated != nil
	})
	forced := n.wantReady("forced").Status.ContainerStatuses[0].ContainerID
	n.must("kubectl", "delete", "pod", "--namespace="+pods, "forced", "--force")
	n.wantEnded(forced)
	n.install(eightClaimed)
	n.wantGone("two")
	n.startClaiming("three", 6)
	n.wantClaimed("three")
	n.wantClaimed("one")
}

// Verifies a rollback to a release without a resource of dynamic resource allocation while pods have
// claims: no device is given out twice, status has the problem, and the pods end when the chart is
// given dra.enabled.
func TestRollbackToNoClaims(t *testing.T) {
	n := begin(t)
	n.install(eightGPUs)
	n.wantCounts(gpu, 8, 8)
	n.upgrade(eightClaimed)
	n.wantPublished(8)
	one := n.startClaiming("one", 2)
	n.startClaiming("two", 2)
	n.helm("rollback", "--wait")
	n.wantCounts(gpu, 8, 4)
	n.wantUntouched(one)
	n.restartContainer("one")
	n.start("plugin", gpu, 4)
	n.wantOneHolderEach("one", "two", "plugin")
	n.remove("two")
	n.wantProblem("driver "+mockDriver, "/var/lib/kubelet/plugins")
	n.upgrade(eightGPUs, values{"dra": values{"enabled": true}})
	n.wantGone("two")
	n.wantCounts(gpu, 8, 6)
	n.delete("one")
	n.wantCounts(gpu, 8, 8)
	n.wantNoRecord()
}

// eightClaimed is eightGPUs by claims.
var eightClaimed = strings.Replace(eightGPUs, "- name: example.com/gpu", "- {name: example.com/gpu, api: dra}", 1)
