package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/test/amdtree"
)

// amdDriver is the name of the AMD backend's driver.
const amdDriver = "amd.accelmux.io"

// Verifies that an AMD GPU is switched to CPX for a claim, and its other partitions are given to other claims; that a
// claim for the whole GPU waits until the last of them has ended, also when the agent restarts meanwhile; and that
// the GPU is then switched back.
func TestAMDPartitionsAreMadeForClaims(t *testing.T) {
	n := begin(t)
	n.startAMD()
	n.installExample("dra-amd", func(example values, profiles []map[string]any) {
		delete(example, "extraVolumes") // those of the tests have the tree
		mountInBackend(example, "amd", values{"name": "play", "mountPath": playDir})
		profiles[0]["backends"].([]any)[0].(map[string]any)["settings"].(map[string]any)["poll"] = "100ms"
	})
	n.readTreeFrom(filepath.Join(playDir, "amd"))
	n.eventually("the GPU and the partitions of three modes are published", func() bool {
		published, err := publishedBy(context.Background(), amdDriver)
		return err == nil && len(published) == 1+2+4+8
	})
	n.apply("amd-partitions")
	n.wantReady("amd-partitions")
	if lines := n.log(pods, "amd-partitions", "main"); !slices.Equal(lines, strings.Fields("/dev/dri/card1 /dev/dri/card2 /dev/dri/renderD128 /dev/dri/renderD129 /dev/kfd")) {
		t.Errorf("the container has %q", lines)
	}
	whole := "amdgpu-" + amdID
	exist := func() (all []string) {
		for i := range 8 {
			all = append(all, fmt.Sprintf("%s-cpx-%d", whole, i))
		}
		return all
	}
	n.wantMade(exist()...)
	n.createClaiming("three", "partition.amd.com", 1, "cpx")
	n.wantReady("three")
	n.createClaiming("all", "gpu.amd.com", 1, "spx")
	n.wantPodEvent("all", "FailedScheduling", "cannot allocate all claims")
	n.delete("amd-partitions")
	n.deletePod(n.agentPod())
	n.wantMade(exist()...)
	n.wantReady("three")
	n.delete("three")
	n.wantReady("all")
	n.wantMade(whole)
	if out := strings.Fields(n.exec("all", "ls", "/dev/dri")); !slices.Equal(out, []string{"card1", "renderD128"}) {
		t.Errorf("the pod with the whole GPU has %q", out)
	}
	n.delete("all")
	n.wantMade()
	n.wantNoRecord()
}

// amdID is the serial number of the GPU.
const amdID = "00000000000000a1"

// startAMD makes the node one with an MI300X, whose driver switches the mode when it is written.
func (n *node) startAMD() {
	n.Helper()
	dir := filepath.Join(playDir, "amd")
	machine := amdtree.NewMI300X("SPX", "NPS1")
	machine.GPUs = machine.GPUs[:1]
	machine.GPUs[0].UniqueID = 0xa1
	if err := os.MkdirAll(dir, 0o755); err != nil {
		n.Fatal(err)
	}
	tree, err := amdtree.Write(dir, machine)
	if err != nil {
		n.Fatal(err)
	}
	tree.Sudden = true
	n.must("cp", "-a", filepath.Join(dir, "dev/kfd"), filepath.Join(dir, "dev/dri"), "/dev/")
	ctx, cancel := context.WithCancel(context.Background())
	driver := make(chan error, 1)
	go func() { driver <- tree.FollowModes(ctx) }()
	n.Cleanup(func() {
		cancel()
		if err := <-driver; err != nil {
			n.Error(err)
		}
		n.must("rm", "-rf", dir, "/dev/kfd", "/dev/dri")
	})
}

// readTreeFrom tells the agent to read sysfs and device nodes below a directory.
func (n *node) readTreeFrom(dir string) {
	n.Helper()
	patch := fmt.Sprintf(`[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--sysfs=%s/sys"},
		{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--devfs=%s/dev"}]`, dir, dir)
	if _, err := client.AppsV1().DaemonSets(namespace).Patch(n.soon(), release, types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		n.Fatal(err)
	}
	n.must("kubectl", "--namespace="+namespace, "rollout", "status", "daemonset/"+release)
}

// createClaiming creates a pod with a claim of its name, for devices of a class in a compute mode.
func (n *node) createClaiming(name, class string, count int64, mode string) {
	n.Helper()
	claim := newClaim(name, count, fmt.Sprintf(`device.attributes["amd.accelmux.io"].computePartition == %q`, mode))
	claim.Spec.Devices.Requests[0].Exactly.DeviceClassName = class
	n.claim(claim)
	n.create(claimingPod(name, name))
}
