package node

import (
	"context"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/accelmux/accelmux/core/condition"
)

// Verifies the Node's condition on a real API server: it is there when the agent serves, an upgrade does not change it, it
// is unknown when the agent is gone, and the documented command deletes it; and that the admission policy lets the
// agents write nothing else.
func TestNodeCondition(t *testing.T) {
	n := begin(t)
	remove := func() {
		n.must("kubectl", "patch", "node", nodeName, "--subresource=status", "--type=strategic",
			"-p", `{"status": {"conditions": [{"type": "AcceleratorsReady", "$patch": "delete"}]}}`)
	}
	t.Cleanup(remove)
	on := values{"nodeCondition": values{"enabled": true}}
	n.install(eightGPUs, on)
	serving := n.wantCondition(v1.ConditionTrue, condition.Serving)
	n.upgrade(eightGPUs, on, values{"podLabels": values{"upgrade": "1"}})
	if now := n.wantCondition(v1.ConditionTrue, condition.Serving); !now.LastTransitionTime.Equal(&serving.LastTransitionTime) {
		t.Errorf("the upgrade changed the condition: %+v, before %+v", now, serving)
	}
	patch := func(node, status string) error {
		config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
		if err != nil {
			t.Fatal(err)
		}
		config.Impersonate = rest.ImpersonationConfig{
			UserName: "system:serviceaccount:" + namespace + ":" + release, Extra: map[string][]string{"authentication.kubernetes.io/node-name": {node}},
		}
		agent, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		_, err = agent.CoreV1().Nodes().Patch(n.soon(), nodeName, types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status")
		return err
	}
	const own = `{"status": {"conditions": [{"type": "AcceleratorsReady", "status": "True", "reason": "Serving", "message": "ready"}]}}`
	if err := patch(nodeName, own); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"of its own Node only": patch("another", own),
		"and nothing else":     patch(nodeName, `{"status": {"capacity": {"example.com/gpu": "9"}}}`),
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}

	// Its account stays, unlike with helm uninstall, which may be quicker than the agent.
	n.must("kubectl", "--namespace="+namespace, "delete", "daemonset", release)
	n.wantCondition(v1.ConditionUnknown, condition.AgentStopped)
	remove()
	node, err := client.CoreV1().Nodes().Get(context.Background(), nodeName, metav1.GetOptions{})
	if err != nil || conditionOf(node) != nil {
		t.Errorf("%v, %+v", err, conditionOf(node))
	}
}

// wantCondition waits for the Node's condition, and returns it.
func (n *node) wantCondition(status v1.ConditionStatus, reason string) v1.NodeCondition {
	n.Helper()
	node, err := until(n.soon(), client.CoreV1().Nodes(), fields.OneTermEqualSelector("metadata.name", nodeName), func(node *v1.Node) bool {
		c := conditionOf(node)
		return c != nil && c.Status == status && c.Reason == reason
	})
	if err != nil {
		n.Fatalf("the condition is not %s, %s: %v", status, reason, err)
	}
	return *conditionOf(node)
}

func conditionOf(node *v1.Node) *v1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == condition.Type {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}
