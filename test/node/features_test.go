package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// The agent labels its Node with what it found, and its token is good for nothing
// else: the admission policy refuses other Nodes, labels, annotations and taints.
func TestFeaturesAsLabelsOfOwnNode(t *testing.T) {
	n := begin(t)
	n.install(eightGPUs, values{"nodeFeatures": values{"publish": "labels", "ownNodePolicy": true}})
	_, err := until(n.soon(), client.CoreV1().Nodes(), fields.OneTermEqualSelector("metadata.name", nodeName), func(object *v1.Node) bool {
		return object.Labels["mock.accelmux.io/gpu.count"] == "8"
	})
	if err != nil {
		t.Fatalf("the Node has no label with the number of devices: %v", err)
	}

	other := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	if _, err := client.CoreV1().Nodes().Create(n.soon(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.Cleanup(func() {
		if err := client.CoreV1().Nodes().Delete(n.soon(), "other", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	agent := n.asAgent()
	patch := func(name, text string) error {
		_, err := agent.CoreV1().Nodes().Patch(n.soon(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	const feature = `{"metadata":{"labels":{"mock.accelmux.io/test":"yes"}}}`
	// The API server takes a new policy into use a moment after it was made.
	n.eventually("the policy is in use", func() bool {
		return denied(patch("other", feature), "an agent may change only the Node that its pod runs on")
	})
	if err := patch(nodeName, feature); err != nil {
		t.Errorf("the agent may not change a label that is its own: %v", err)
	}
	for text, why := range map[string]string{
		`{"metadata":{"labels":{"example.com/accelerator":"red"}}}`:     "only labels of the domains",
		`{"metadata":{"labels":{"kubernetes.io/hostname":null}}}`:       "only labels of the domains",
		`{"metadata":{"annotations":{"a":"b"}}}`:                        "nothing of a Node but labels",
		`{"spec":{"taints":[{"key":"a","effect":"PreferNoSchedule"}]}}`: "nothing of a Node but labels",
	} {
		if err := patch(nodeName, text); !denied(err, why) {
			t.Errorf("the agent's change of its Node by %s was not refused, as it may change %s: %v", text, why, err)
		}
	}
}

// denied reports whether the admission policy refused a request with that message.
func denied(err error, message string) bool {
	return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy") && strings.Contains(err.Error(), message)
}

// asAgent is a client with the agent's own token.
func (n *node) asAgent() kubernetes.Interface {
	n.Helper()
	tokens, err := filepath.Glob("/var/lib/kubelet/pods/" + string(n.agentPod().UID) + "/volumes/kubernetes.io~projected/kube-api-access-*/token")
	if err != nil || len(tokens) != 1 {
		n.Fatalf("the agent's pod has the tokens %v: %v", tokens, err)
	}
	token, err := os.ReadFile(tokens[0])
	if err != nil {
		n.Fatal(err)
	}
	agent, err := kubernetes.NewForConfig(&rest.Config{
		Host: "https://127.0.0.1:443", BearerToken: strings.TrimSpace(string(token)), TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	})
	if err != nil {
		n.Fatal(err)
	}
	return agent
}

// dropFeatures takes away the labels that agents made; they stay by themselves.
func (n *node) dropFeatures() {
	n.Helper()
	object, err := client.CoreV1().Nodes().Get(n.soon(), nodeName, metav1.GetOptions{})
	if err != nil {
		n.Fatal(err)
	}
	// A patch, and no update: kubelet writes the Node as well.
	gone := map[string]any{}
	for name := range object.Labels {
		if strings.Contains(name, ".accelmux.io/") {
			gone[name] = nil
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": gone}})
	if err != nil {
		n.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().Patch(n.soon(), nodeName, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		n.Fatal(err)
	}
}
