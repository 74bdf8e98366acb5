package node

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Verifies that a pod has no node until its device is prepared; that a preparation which fails is in its
// Events with the driver's words, leaves nothing, and is tried again; that a restart of the agent
// in between only delays the pod; and that what was prepared for a pod that is deleted while it waits is released.
func TestPodsWaitForDevices(t *testing.T) {
	n := begin(t)
	n.installExample("dra-slow", func(_ values, profiles []map[string]any) {
		settings := profiles[0]["backends"].([]any)[0].(map[string]any)["settings"].(map[string]any)
		settings["scenarioFile"] = filepath.Join(playDir, "scenario.yaml")
		settings["prepare"] = map[string]any{"slow": true, "delay": "10s"}
	})
	n.wantPublished(2)
	n.eventually("the devices have binding conditions", func() bool {
		published, err := publishedDevices(context.Background())
		return err == nil && len(published["mock-0"].BindingConditions) == 1
	})
	began := time.Now()
	n.apply("binding")
	n.wantPodEvent("binding", "BindingConditionsPending", "waiting for binding conditions")
	if pod, err := client.CoreV1().Pods(pods).Get(t.Context(), "binding", metav1.GetOptions{}); err != nil || pod.Spec.NodeName != "" && time.Since(began) < 10*time.Second {
		t.Errorf("the pod has the node %q after %s: %v", pod.Spec.NodeName, time.Since(began), err)
	}
	n.wantLog("binding", "main", "mock-0")
	if took := time.Since(began); took < 10*time.Second {
		t.Errorf("the pod is ready after %s, and its device takes 10 s", took)
	}

	n.play(`{devices: {"*": {prepare: {error: "the bitstream does not fit"}}}}`)
	n.claim(slowClaim("failing"))
	n.create(claimingPod("failing", "failing"))
	n.wantPodEvent("failing", "FailedScheduling", "the bitstream does not fit")
	n.eventually("only the first pod's claim is left", func() bool { return len(n.records()) == 1 })
	n.play(`{devices: {"*": {prepare: {delay: 20s}}}}`)
	n.eventually("it is being prepared", func() bool { return len(n.records()) == 2 })
	n.deletePod(n.agentPod())
	n.wantReady("failing")
	n.delete("failing")

	n.claim(slowClaim("gone"))
	n.create(claimingPod("gone", "gone"))
	n.eventually("it is being prepared", func() bool { return len(n.records()) == 2 })
	n.delete("gone")
	n.eventually("only the first pod's claim is left", func() bool { return len(n.records()) == 1 })
	n.delete("binding")
	n.wantNoRecord()
}

// Verifies that a device whose preparation failed is not chosen again at once: it has a taint, which is a problem of the
// node, and the pod gets another device.
func TestPodGetsAnotherDeviceThanTheOneThatFailed(t *testing.T) {
	n := begin(t)
	n.installExample("dra-slow", func(_ values, profiles []map[string]any) {
		settings := profiles[0]["backends"].([]any)[0].(map[string]any)["settings"].(map[string]any)
		settings["scenarioFile"] = filepath.Join(playDir, "scenario.yaml")
		settings["prepare"] = map[string]any{"slow": true}
	})
	n.wantPublished(2)
	n.eventually("the devices have binding conditions", func() bool {
		published, err := publishedDevices(context.Background())
		return err == nil && len(published["mock-0"].BindingConditions) == 1
	})
	n.play(`{devices: {mock-0: {prepare: {error: "the bitstream does not fit"}}}}`)
	n.claim(slowClaim("another"))
	n.create(claimingPod("another", "another"))
	n.wantPodEvent("another", "FailedScheduling", "the bitstream does not fit")
	n.wantTaint("mock-0", "preparation-failed", resourcev1.DeviceTaintEffectNoSchedule)
	n.wantProblem("preparation-failed", "the bitstream does not fit")
	n.wantReady("another")
	claim, err := client.ResourceV1().ResourceClaims(pods).Get(n.soon(), "another", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := claim.Status.Allocation.Devices.Results[0].Device; got != "mock-1" {
		t.Errorf("the pod has %s, whose preparation fails", got)
	}
	n.delete("another")
	n.wantNoRecord()
}

func slowClaim(name string) *resourcev1.ResourceClaim {
	claim := newClaim(name, 1, "")
	claim.Spec.Devices.Requests[0].Exactly.DeviceClassName = "fpga.example.com"
	return claim
}
