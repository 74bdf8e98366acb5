package node

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// The node reboots: a fault that needed it, and that the backend sees no more, is
// over, while it stayed over a mere restart of the agent; one that the backend still
// sees stays. The agent serves again, and pods get devices.
func TestRebootCuresWhatItCan(t *testing.T) {
	n := begin(t)
	n.bootID("11111111-1111-4111-8111-111111111111")
	n.install(eightGPUs)
	n.readProcFrom(playDir)
	n.wantCounts(gpu, 8, 8)
	n.play(`{devices: {
		mock-0: {fault: {code: needs-reboot, recovery: reboot}},
		mock-1: {fault: {code: needs-replacement, recovery: replacement}}}}`)
	n.wantCounts(gpu, 8, 6)
	n.start("one", gpu, 2)
	n.play(`{devices: {mock-1: {fault: {code: needs-replacement, recovery: replacement}}}}`)
	n.kill("accelmux")
	n.wantFaulty("mock-0", "mock-1")

	n.reboot()
	n.wantRegistered(gpu, 7)
	n.wantFaulty("mock-1")
	n.wantCounts(gpu, 8, 7)
	// Kubelet may have refused the pod from before the reboot, if it looked at it
	// before the agent had registered: Kubernetes issue 125579.
	before := n.untilPod("one", "running again or refused", func(pod *v1.Pod) bool {
		return pod.Status.Phase == v1.PodFailed || ready(pod)
	})
	t.Logf("the pod from before the reboot is %s %s", before.Status.Phase, before.Status.Reason)
	n.delete("one")
	n.start("two", gpu, 7)
}

// reboot is a reboot of the node, which kubelet has noticed. It can be called once.
func (n *node) reboot() {
	n.Helper()
	const other = "22222222-2222-4222-8222-222222222222"
	n.bootID(other)
	n.must(filepath.Join(scripts, "reboot.sh"), other)
	n.Cleanup(func() { n.must("umount", "/proc/sys/kernel/random/boot_id") })
	_, err := until(n.soon(), client.CoreV1().Nodes(), fields.OneTermEqualSelector("metadata.name", nodeName), func(object *v1.Node) bool {
		return object.Status.NodeInfo.BootID == other
	})
	if err != nil {
		n.Fatalf("kubelet does not notice the reboot: %v", err)
	}
}

// bootID is what the agent takes for the boot ID.
func (n *node) bootID(id string) {
	n.Helper()
	path := filepath.Join(playDir, "sys/kernel/random/boot_id")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(id+"\n"), 0o600); err != nil {
		n.Fatal(err)
	}
}

// wantFaulty waits until the agent says that these devices are unhealthy, and no
// others.
func (n *node) wantFaulty(ids ...string) {
	n.Helper()
	n.eventually("unhealthy are "+strings.Join(ids, ", "), func() bool {
		known, err := devices(context.Background())
		var faulty []string
		for _, d := range known {
			if !d.Healthy {
				faulty = append(faulty, d.ID)
			}
		}
		slices.Sort(faulty)
		return err == nil && len(known) > 0 && slices.Equal(faulty, ids)
	})
}
