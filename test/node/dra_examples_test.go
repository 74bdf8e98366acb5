package node

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
)

// Verifies that a pod gets the devices of the claim that a template makes for it, and with
// dra.metadata a file with their attributes, and that the claim is gone with the pod.
func TestPodWithClaimGetsItsDevices(t *testing.T) {
	n := begin(t)
	n.installClaims(func(backend map[string]any) { backend["dra"] = values{"metadata": true} })
	n.apply("claim-template")
	n.wantLog("claim-template", "main", "mock-0", "mock-1")
	if sees := n.inside("claim-template"); !slices.Equal(sees.nodes, []string{"mock-0", "mock-1"}) {
		t.Errorf("the container has the device nodes of %v", sees.nodes)
	}
	attributes := n.exec("claim-template", "cat", "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/gpu/gpu/"+mockDriver+"-metadata.json")
	for _, id := range []string{"mock-0", "mock-1"} {
		if !strings.Contains(attributes, `"name": "`+id+`"`) {
			t.Errorf("the container has no attributes of %s: %s", id, attributes)
		}
	}
	n.delete("claim-template")
	n.wantNoRecord()
}

// exampleChecks are what the pods of deployments/examples/dra must see. Each example has the node
// to itself.
var exampleChecks = map[string]func(n *node){
	"shared-claim": func(n *node) {
		n.wantLog("shared-claim-1", "first", "mock-0")
		n.wantLog("shared-claim-1", "second", "mock-0")
		n.wantLog("shared-claim-2", "main", "mock-0")
	},
	"several-requests": func(n *node) {
		n.wantLog("several-requests", "small", "mock-0")
		n.wantLog("several-requests", "large", "mock-4", "mock-5")
		n.wantLog("several-requests", "both", "mock-0", "mock-4", "mock-5")
	},
	"selectors": func(n *node) { n.wantLog("selectors", "main", "mock-4") },
	"constraints": func(n *node) {
		n.wantLog("constraints", "main", "mock-0", "mock-1", "mock-2", "mock-3")
	},
	"parameters": func(n *node) {
		n.wantReady("parameters")
		if lines := n.log(pods, "parameters", "main"); !slices.Equal(lines, []string{"ACCELMUX_MOCK_0=mock-0", "ACCELMUX_MOCK_MESSAGE=hello"}) {
			n.Errorf("the container has %q", lines)
		}
		wrong := newClaim("wrong", 1, "")
		wrong.Spec.Devices.Config = []resourcev1.DeviceClaimConfiguration{{DeviceConfiguration: resourcev1.DeviceConfiguration{
			Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: mockDriver, Parameters: runtime.RawExtension{
				Raw: []byte(`{"apiVersion": "accelmux.io/v1alpha1", "kind": "DeviceParameters", "parameters": {"mesage": "hello"}}`),
			}},
		}}}
		n.claim(wrong)
		n.create(claimingPod("wrong", "wrong"))
		n.wantPodEvent("wrong", "FailedPrepareDynamicResources", `claim default/wrong: the parameters of the claim for request gpu: the backend does not know the parameter mesage`)
	},
	"toleration": func(n *node) {
		n.wantLog("toleration", "main", allMocks()...)
	},
	"extended-resource": func(n *node) {
		n.wantLog("extended-resource", "main", "mock-0")
	},
	"prioritized-list": func(n *node) {
		n.wantLog("prioritized-list", "main", "mock-4", "mock-5")
	},
	"links": func(n *node) {
		n.delete("links")
		n.eventually("the claim is gone", func() bool {
			claims, err := client.ResourceV1().ResourceClaims(pods).List(n.soon(), metav1.ListOptions{})
			return err == nil && len(claims.Items) == 0
		})
		attempt := 0
		n.eventually("another pod has the first three devices", func() bool {
			attempt++ // the scheduler may not know yet that the claim is gone
			other := fmt.Sprint("other-", attempt)
			n.startClaiming(other, 3)
			first := slices.Equal(n.allocated(other), []string{"mock-0", "mock-1", "mock-2"})
			if !first {
				n.delete(other)
				if err := client.ResourceV1().ResourceClaims(pods).Delete(n.soon(), other, metav1.DeleteOptions{}); err != nil {
					n.Fatal(err)
				}
			}
			return first
		})
		manifest := filepath.Join(examples(), "links", "manifest.yaml")
		explained := n.must("sh", "-c", "kubectl exec --stdin --namespace="+namespace+" daemonset/accelmux -- accelmux topology explain --claim - < "+manifest)
		n.must("kubectl", "apply", "--filename="+manifest)
		n.wantLog("links", "main", "mock-4", "mock-5")
		readme, err := os.ReadFile(filepath.Join(examples(), "links", "README.md"))
		printed := strings.ReplaceAll("    "+strings.ReplaceAll(strings.TrimSpace(explained), "\n", "\n    "), "\n    \n", "\n\n")
		if err != nil || !strings.Contains(string(readme), printed) {
			n.Errorf("the README does not have what was printed: %v\n%s", err, printed)
		}
	},
	// The devices that it sees are those of other pods.
	"admin-access": func(n *node) {
		n.startClaiming("tenant", 7)
		if _, err := until(n.soon(), client.CoreV1().Pods("admin-access"), fields.Everything(), func(pod *v1.Pod) bool { return ready(pod) }); err != nil {
			n.Fatal(err)
		}
		var want []string
		for i := range 8 {
			want = append(want, fmt.Sprintf("ACCELMUX_MOCK_%d=mock-%d", i, i))
		}
		if lines := n.log("admin-access", "admin-access", "main"); !slices.Equal(lines, want) {
			n.Errorf("the container has %q", lines)
		}
	},
	"amd-partitions":        nil, // TestAMDPartitionsAreMadeForClaims
	"binding":               nil, // TestPodsWaitForDevices
	"claim-template":        nil, // TestPodWithClaimGetsItsDevices
	"functions":             nil, // needs an FPGA, its README says so: backends/fpga, TestFunctions
	"partitions":            nil, // TestPartitionsAreMadeForClaims
	"reset-between-tenants": nil, // TestResetBetweenTenants
	"shares":                nil, // TestShares
	"time-slices":           nil, // TestTimeSlices
}

// Verifies that each example's pods get what its README promises.
func TestClaimExamples(t *testing.T) {
	n := begin(t)
	n.installClaims()
	n.play(`{devices: {mock-7: {fault: {code: xid-79}}}}`) // for toleration and admin-access
	n.wantTaint("mock-7", "xid-79", "NoSchedule")
	entries, err := os.ReadDir(examples())
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		check, known := exampleChecks[entry.Name()]
		if check == nil {
			if !known {
				t.Errorf("nothing checks the example %s", entry.Name())
			}
			continue
		}
		t.Run(entry.Name(), func(t *testing.T) {
			n := n.with(t)
			t.Cleanup(n.deletePods)
			n.apply(entry.Name())
			check(n)
		})
	}
}

// allMocks are the IDs of the eight devices.
func allMocks() (ids []string) {
	for i := range 8 {
		ids = append(ids, fmt.Sprintf("mock-%d", i))
	}
	return ids
}

// wantLog waits until a pod is ready, and checks which devices a container of it has printed.
func (n *node) wantLog(pod, container string, ids ...string) {
	n.Helper()
	n.wantReady(pod)
	var got []string
	for _, line := range n.log(pods, pod, container) {
		_, id, _ := strings.Cut(line, "=")
		got = append(got, id)
	}
	if !slices.Equal(got, ids) {
		n.Errorf("the container %s of %s has %v, want %v", container, pod, got, ids)
	}
}
