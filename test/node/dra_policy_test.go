package node

import (
	"os"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// resourceVersions are the versions of resource.k8s.io that the API server serves.
var resourceVersions = []string{"v1", "v1beta1", "v1beta2"}

// Verifies that the chart's policy keeps an agent, in a pod or as a service of the node, to the
// ResourceSlices of the node on which it runs, in each version of the API, and other accounts to nothing.
func TestAgentWritesSlicesOfItsNodeOnly(t *testing.T) {
	n := begin(t)
	n.installClaims()
	pod := n.agentPod()
	agent := n.withToken(&authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID})
	outside := n.withToken(&authenticationv1.BoundObjectReference{Kind: "Node", APIVersion: "v1", Name: nodeName})
	nowhere := n.withToken(nil)
	admin := n.withConfig(func(*rest.Config) {})
	own, others := map[string]any{"nodeName": nodeName}, map[string]any{"nodeName": "other"}
	everywhere := map[string]any{"allNodes": true}

	// The policy is in force a moment after it was created.
	n.eventually("the policy is in force", func() bool { return n.writes(agent, "v1", others).create != "" })
	for _, version := range resourceVersions {
		t.Run(version, func(t *testing.T) {
			const notHere = "the agent on node " + nodeName + " may write ResourceSlices of its own node only, not of "
			for name, c := range map[string]struct {
				client  dynamic.Interface
				of      map[string]any
				refused string
			}{
				"its own":                            {agent, own, ""},
				"another node's":                     {agent, others, notHere + "node other"},
				"those of all nodes":                 {agent, everywhere, notHere + "several nodes"},
				"its own, by a token of its node":    {outside, own, ""},
				"another's, by a token of its node":  {outside, others, notHere + "node other"},
				"its own, by a token without node":   {nowhere, own, "the agent's token does not name a node"},
				"another node's, by another account": {admin, others, ""},
			} {
				got := n.with(t).writes(c.client, version, c.of)
				for verb, refusal := range map[string]string{"create": got.create, "update": got.update, "delete": got.remove} {
					if (refusal == "") != (c.refused == "") || !strings.Contains(refusal, c.refused) {
						t.Errorf("%s %s: refused: %q, want %q", verb, name, refusal, c.refused)
					}
				}
			}
		})
	}
}

// refusals are the errors of writes of a ResourceSlice; "" is success.
type refusals struct{ create, update, remove string }

// writes tries to create, update and delete a slice of the nodes in spec, with a client. For an
// update and a deletion an administrator has created it.
func (n *node) writes(client dynamic.Interface, version string, nodes map[string]any) (got refusals) {
	n.Helper()
	resource := schema.GroupVersionResource{Group: "resource.k8s.io", Version: version, Resource: "resourceslices"}
	spec := map[string]any{"driver": "policy.example.com", "pool": map[string]any{"name": "policy", "generation": int64(1), "resourceSliceCount": int64(1)}}
	for key, value := range nodes {
		spec[key] = value
	}
	slice := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": "ResourceSlice",
		"metadata": map[string]any{"generateName": "policy-"}, "spec": spec,
	}}
	text := func(err error) string {
		if err != nil {
			return err.Error()
		}
		return ""
	}
	_, err := client.Resource(resource).Create(n.soon(), slice, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	got.create = text(err)
	stored, err := n.withConfig(func(*rest.Config) {}).Resource(resource).Create(n.soon(), slice, metav1.CreateOptions{})
	if err != nil {
		n.Fatal(err)
	}
	stored.SetLabels(map[string]string{"example.com/changed": "true"})
	_, err = client.Resource(resource).Update(n.soon(), stored, metav1.UpdateOptions{})
	got.update = text(err)
	got.remove = text(client.Resource(resource).Delete(n.soon(), stored.GetName(), metav1.DeleteOptions{}))
	return got
}

// withToken is a client with a token of the agents' account that is bound to an object; nil: to none.
func (n *node) withToken(object *authenticationv1.BoundObjectReference) dynamic.Interface {
	n.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: object}}
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(n.soon(), release, request, metav1.CreateOptions{})
	if err != nil {
		n.Fatal(err)
	}
	return n.withConfig(func(config *rest.Config) { config.BearerToken = answer.Status.Token })
}

// withConfig is an administrator's client, but for what change changes.
func (n *node) withConfig(change func(*rest.Config)) dynamic.Interface {
	n.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		n.Fatal(err)
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	change(config)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		n.Fatal(err)
	}
	return client
}
