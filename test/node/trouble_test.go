package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/core/status"
)

// The configuration changes while the agent runs. A good one takes effect without
// a restart; one that is broken, or names a backend that is not there, is told in
// an Event and in the status, and takes nothing away.
func TestConfigurationChanges(t *testing.T) {
	n := begin(t)
	n.install(eightGPUs)
	n.wantCounts(gpu, 8, 8)
	before := n.agentPod()
	w := n.watch(gpu)

	n.upgrade(strings.Replace(eightGPUs, "count: 8", "count: 10", 1))
	n.wantCounts(gpu, 10, 10)

	n.writeConfig(strings.Replace(eightGPUs, "count: 8", "count: [8", 1))
	n.wantEvent("ConfigurationRefused", "node.yaml")
	n.wantReport("the status says what is wrong with the file", func(r status.Report) bool { return r.Config.Refused != "" })
	t.Log(n.report().Config.Refused)

	n.writeConfig(strings.Replace(eightGPUs, "    resources:", "      - name: absent\n    resources:", 1))
	n.wantEvent("BackendFailed", "absent")
	n.wantReport("the status says that a backend is not there", func(r status.Report) bool {
		return r.Config.Refused == "" && slices.ContainsFunc(r.Problems, func(p status.Problem) bool { return p.Backend == "absent" })
	})

	n.writeConfig(eightGPUs)
	n.wantReport("all is well", func(r status.Report) bool {
		return r.Config.Refused == "" && len(r.NotReady) == 0 && len(r.Problems) == 0
	})
	n.wantCounts(gpu, 8, 8)
	w.wantNoDip()
	n.wantUntouched(before)
}

// The node's label has a value that no profile has, then one that two profiles of
// the same priority have: what runs stays, and an Event and the status say why.
func TestLabelThatChoosesNoProfile(t *testing.T) {
	n := begin(t)
	n.label("red")
	n.install(twoProfiles + `
  - name: also-blue
    nodeSelector: {matchLabels: {example.com/accelerator: blue}}
    backends: [{name: mock}]
`)
	n.wantCounts(red, 2, 2)
	w := n.watch(gpu, nic, red)
	for value, text := range map[string]string{"green": "no profile", "blue": "also-blue"} {
		n.label(value)
		n.wantReport("the status says why "+value+" chooses no profile", func(r status.Report) bool {
			return r.Config.Profile == "red" && strings.Contains(r.Config.Unchosen, text)
		})
		n.wantEvent("ProfileRefused", text)
		t.Log(n.report().Config.Unchosen)
	}
	n.label("red")
	n.wantReport("all is well", func(r status.Report) bool { return r.Config.Unchosen == "" && len(r.Problems) == 0 })
	w.wantNoDip()
}

// The agent's rights at the API server are taken away, and the API server restarts
// so that watches end: what runs stays, also over a restart of the agent, and the
// status says what is missing. With its rights back the agent follows the label.
func TestRightsTakenAway(t *testing.T) {
	n := begin(t)
	n.label("red")
	n.install(twoProfiles)
	n.wantCounts(red, 2, 2)
	binding, err := client.RbacV1().ClusterRoleBindings().Get(n.soon(), release, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.RbacV1().ClusterRoleBindings().Delete(n.soon(), release, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.service("kill", "apiserver") // it would wait a minute for watches to end
	n.service("start", "apiserver")
	n.eventually("the API server is ready", func() bool {
		_, err := client.CoreV1().Nodes().Get(context.Background(), nodeName, metav1.GetOptions{})
		return err == nil
	})
	forbidden := func(r status.Report) bool {
		return r.Config.Profile == "red" && len(r.NotReady) == 0 &&
			slices.ContainsFunc(r.Problems, func(p status.Problem) bool { return strings.Contains(p.Message, "forbid") })
	}
	n.wantReport("the status says what is forbidden", forbidden)
	t.Log(n.report().Problems)
	before := n.report().StartedAt
	n.kill("accelmux")
	n.wantReport("so does the next agent", func(r status.Report) bool { return !r.StartedAt.Equal(before) && forbidden(r) })
	n.label("blue")
	binding.ResourceVersion = ""
	if _, err := client.RbacV1().ClusterRoleBindings().Create(n.soon(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.wantCounts(blue, 5, 5)
}

// On a node whose kubelet has another directory, the events of the agent's pod
// say so.
func TestKubeletDirectoryMissing(t *testing.T) {
	n := begin(t)
	n.prepareNamespace()
	n.helm("install", "--values="+n.values(eightGPUs, values{"hostPaths": values{
		"kubelet": "/var/lib/elsewhere", "cdi": cdiDir, "state": stateDir, "dev": "/dev", "sys": "/sys",
	}}))
	about := fields.Set{"involvedObject.kind": "Pod", "reason": "FailedMount"}.AsSelector()
	n.waitEvent(namespace, about, "about the agent's pod", "/var/lib/elsewhere/device-plugins")
}

// writeConfig changes the ConfigMap past the chart, which would refuse a bad one.
func (n *node) writeConfig(config string) {
	n.Helper()
	patch := fmt.Sprintf(`{"data": {"node.yaml": %q}}`, config)
	_, err := client.CoreV1().ConfigMaps(namespace).Patch(n.soon(), release, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		n.Fatal(err)
	}
}
