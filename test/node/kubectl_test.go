package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// accelmux runs the plugin of kubectl, and returns what it printed.
func (n *node) accelmux(args ...string) string {
	n.Helper()
	return n.must(filepath.Join(os.Getenv("ACCELMUX_BIN"), "kubectl-accelmux"), args...)
}

// TestKubectl verifies `kubectl accelmux` against a real API server and its proxy: the devices with the pod that has one,
// the topology and the doctor by exec, a cordon that keeps a device from a pod and says who did it, and why that pod waits.
func TestKubectl(t *testing.T) {
	n := begin(t)
	n.install(eightGPUs)
	n.start("train", gpu, 2)
	var lines []string
	n.eventually("the pod has devices", func() bool {
		lines = strings.Split(strings.TrimSpace(n.accelmux("devices", "--no-headers")), "\n")
		return strings.Count(strings.Join(lines, "\n"), pods+"/train") == 2
	})
	held := ""
	for _, line := range lines {
		if cells := strings.Fields(line); strings.Contains(line, pods+"/train") {
			held = cells[1]
		}
	}
	if len(lines) != 8 || held == "" {
		t.Fatalf("the devices are %q", lines)
	}
	if got := n.accelmux("pods", "--namespace="+pods); !strings.Contains(got, "train") || !strings.Contains(got, held) {
		t.Errorf("the pods are\n%s", got)
	}
	if got := n.accelmux("topology", "node"); !strings.Contains(got, "NUMA") {
		t.Errorf("the topology is\n%s", got)
	}

	if got := n.accelmux("doctor", "node"); !strings.HasPrefix(got, "node "+nodeName+"\n") || !strings.Contains(got, "8 devices: ") {
		t.Errorf("the doctor printed\n%s", got)
	}
	if got := n.accelmux("doctor", "-o=jsonpath={.items[*].node} {.items[0].devices[0].resource}"); got != "node "+gpu {
		t.Errorf("the doctor printed %s", got)
	}

	n.accelmux("cordon", "node", held, "--reason=the fan rattles")
	n.wantCounts(gpu, 8, 7)
	n.create(newPod("big", gpu, 7))
	n.eventually("the reason why the pod waits", func() bool {
		why := n.accelmux("why", "big", "--namespace="+pods)
		return strings.Contains(why, "the scheduler: ") && strings.Contains(why, "it asks for 7 "+gpu) &&
			strings.Contains(why, held+" is unhealthy: cordoned") && strings.Contains(why, "cordoned by admin: the fan rattles")
	})
	if why := n.accelmux("why", "train", "--namespace="+pods); !strings.Contains(why, held+", unhealthy: cordoned") {
		t.Errorf("of the pod that has it:\n%s", why)
	}
	n.accelmux("uncordon", "node", held)
	n.wantCounts(gpu, 8, 8)
}

// TestKubectlCordonsDevicesOfOtherDrivers verifies that the scheduler gives a device of another DRA driver to no claim after
// `kubectl accelmux cordon`, and that who did it and why is shown until uncordon.
func TestKubectlCordonsDevicesOfOtherDrivers(t *testing.T) {
	const driver = "gpu.other.example.com"
	n := begin(t)
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "other"},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: driver, NodeName: new(nodeName), Pool: resourcev1.ResourcePool{Name: "pool", ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "gpu-0"}},
		},
	}
	if _, err := client.ResourceV1().ResourceSlices().Create(n.soon(), slice, metav1.CreateOptions{}); err != nil { // clean deletes it
		t.Fatal(err)
	}
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: gpuClass}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "` + driver + `"`}}},
	}}
	if _, err := client.ResourceV1().DeviceClasses().Create(n.soon(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.ResourceV1().DeviceClasses().Delete(n.soon(), class.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	fault := func() string { return n.accelmux("devices", "-o=jsonpath={.items[0].faults[0].message}") }
	if got := fault(); got != "" {
		t.Errorf("the device has the fault %s", got)
	}
	n.accelmux("cordon", "node", "gpu-0", "--reason=the fan rattles")
	if got := fault(); got != "cordoned by admin: the fan rattles" {
		t.Errorf("the device has the fault %s", got)
	}
	n.claim(newClaim("waits", 1, ""))
	n.create(claimingPod("waits", "waits"))
	n.wantUnschedulable("waits")
	if got := n.accelmux("why", "waits", "--namespace="+pods); !strings.Contains(got, "claim waits is not allocated") {
		t.Errorf("why it waits:\n%s", got)
	}
	n.deletePods() // on the node its claim could not be prepared
	n.accelmux("uncordon", "node", driver+"/gpu-0")
	if got := fault(); got != "" {
		t.Errorf("after uncordon the device has the fault %s", got)
	}
}
