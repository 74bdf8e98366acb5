package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/accelmux/accelmux/core/status"
)

// Some devices are shared by up to three pods.
const sharedGPUs = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: mock
        settings: {count: 6}
    resources:
      - name: example.com/shared
        replicas: 3
        selector: device.attributes["mock"].index < 2
      - name: example.com/gpu
`

// `accelmux devices` names the holders that kubelet's pod-resources API names,
// whatever pods come, go and restart.
func TestBooksAgreeWithKubelet(t *testing.T) {
	const shared = "example.com/shared"
	n := begin(t)
	n.install(sharedGPUs)
	n.wantCounts(gpu, 4, 4)
	n.wantCounts(shared, 6, 6)
	for name, of := range map[string]string{"s1": shared, "s2": shared, "s3": shared, "s4": shared, "g1": gpu} {
		n.create(newPod(name, of, 1))
	}
	n.create(newPod("g2", gpu, 2))
	for _, name := range []string{"s1", "s2", "s3", "s4", "g1", "g2"} {
		n.wantReady(name)
	}
	n.wantBooksAgree(7)
	n.restartContainer("g2")
	n.wantBooksAgree(7)
	n.restartKubelet("kill")
	n.wantRegistered(gpu, 4)
	n.wantBooksAgree(7)
	n.kill("accelmux")
	n.wantRegistered(gpu, 4)
	n.wantBooksAgree(7)
}

// wantBooksAgree waits until kubelet and the agent name the same holders of so
// many units.
func (n *node) wantBooksAgree(units int) {
	n.Helper()
	var atKubelet, atAgent []string
	defer func() {
		if n.Failed() {
			n.Logf("kubelet:   %q\nthe agent: %q", atKubelet, atAgent)
		}
	}()
	took := n.eventually("kubelet and the agent name the same holders", func() bool {
		// The agent first: kubelet answers 100 questions a second, the agent's too.
		var err error
		if atAgent, err = n.agentsHolders(); err != nil || len(atAgent) != units {
			return false
		}
		atKubelet, err = n.kubeletsHolders()
		return err == nil && slices.Equal(atKubelet, atAgent)
	})
	n.Logf("kubelet and the agent agreed after %v", took)
}

// kubeletsHolders asks for pod after pod: a List right after a start of kubelet can
// make it forget what pods hold that it has yet to hear of.
func (n *node) kubeletsHolders() ([]string, error) {
	all, err := client.CoreV1().Pods(pods).List(n.soon(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var holders []string
	for i := range all.Items {
		request := &podresources.GetPodResourcesRequest{PodName: all.Items[i].Name, PodNamespace: pods}
		answer, err := n.kubelet.Get(context.Background(), request)
		if err != nil {
			return nil, err
		}
		pod := answer.GetPodResources()
		for _, c := range pod.GetContainers() {
			for _, d := range c.Devices {
				for _, id := range d.DeviceIds {
					holders = append(holders, fmt.Sprintf("%s of %s: %s/%s/%s", id, d.ResourceName, pod.Namespace, pod.Name, c.Name))
				}
			}
		}
	}
	slices.Sort(holders)
	return slices.Compact(holders), nil
}

// agentsHolders asks as an operator does.
func (n *node) agentsHolders() ([]string, error) {
	out, err := run(n.soon(), "kubectl", "exec", "--namespace="+namespace, "daemonset/accelmux", "--", "accelmux", "devices", "--output=json")
	if err != nil {
		return nil, err
	}
	var devices []status.Device
	if err := json.Unmarshal([]byte(out), &devices); err != nil {
		return nil, err
	}
	var holders []string
	for _, d := range devices {
		for _, h := range d.Holders {
			holders = append(holders, fmt.Sprintf("%s of %s: %s/%s/%s", h.Unit, h.Resource, h.Namespace, h.Pod, h.Container))
		}
	}
	slices.Sort(holders)
	return holders, nil
}
