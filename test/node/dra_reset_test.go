package node

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// Verifies that a device with reset: afterUse is reset between two pods, by both APIs, and that it is
// given to nobody while the reset fails.
func TestResetBetweenTenants(t *testing.T) {
	const example, npu = "reset-between-tenants", "example.com/npu"
	n := begin(t)
	n.installExample("dra-reset", func(_ values, profiles []map[string]any) {
		settings := profiles[0]["backends"].([]any)[0].(map[string]any)["settings"].(map[string]any)
		settings["scenarioFile"] = filepath.Join(playDir, "scenario.yaml")
	})
	n.wantPublished(1)
	n.wantCounts(npu, 1, 1)
	n.apply(example)
	done := func(pod string) {
		n.untilPod(pod, "done", func(pod *v1.Pod) bool { return pod.Status.Phase == v1.PodSucceeded })
	}
	done("gpu-tenant-2")
	done("npu-tenant-2")
	readme, err := os.ReadFile(filepath.Join(examples(), example, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, device := range []string{"gpu", "npu"} {
		n.eventually(device+" is reset after both tenants", func() bool { return len(n.mockCalls(device)) >= 6 })
		if printed := "\n\n    " + strings.Join(n.mockCalls(device), "\n    ") + "\n\n"; !strings.Contains(string(readme), printed) {
			t.Errorf("the README does not have the calls for %s:%s", device, printed)
		}
	}
	n.deletePods()

	n.play(`{devices: {"*": {reset: {result: failed, message: still warm}}}}`)
	n.apply(example)
	n.wantTaint("gpu", "reset-after-use", resourcev1.DeviceTaintEffectNoSchedule)
	n.wantCounts(npu, 1, 0)
	for _, device := range []string{"gpu", "npu"} {
		n.wantProblem("device " + device + " did not recover: still warm; the reset is tried again; if it keeps failing, reboot the node")
		if calls := n.mockCalls(device)[6:]; slices.Contains(calls[1:], "prepare") {
			t.Errorf("the second tenant has %s before a reset worked: %v", device, calls)
		}
	}
	n.untilPod("npu-tenant-2", "refused", func(pod *v1.Pod) bool {
		return strings.Contains(pod.Status.Message, "device mock/npu has been in wait for the reset after its last use")
	})
	n.play(`{}`)
	done("gpu-tenant-2")
	n.start("npu-tenant-3", npu, 1)
}

// mockCalls are the calls that the mock of the example got for a device.
func (n *node) mockCalls(device string) (calls []string) {
	n.Helper()
	text, err := os.ReadFile(filepath.Join(stateDir, "backends/mock/calls"))
	if err != nil {
		n.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 4 && fields[2] == device {
			calls = append(calls, fields[0])
		}
	}
	return calls
}
