package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/accelmux/accelmux/test/amdtree"
)

// Verifies that eight MI300X in CPX, of which one partition has no node, become 63
// partitions under both strategies, which are changed while everything runs; and that
// a container gets its partitions' own nodes, and KFD's once.
func TestAMDPartitions(t *testing.T) {
	t.Parallel()
	n := startAMD(t, amdtree.NewMI300X("CPX", "NPS4"), mixed, "", amdCPX, 63)
	pid := n.backend("amd").PID
	if advertised := n.kubelet.Capacity(amdGPU); advertised != 0 {
		t.Errorf("%s has %d units beside the partitions", amdGPU, advertised)
	}
	definitions := n.definitions()
	nodes := map[string]string{}
	for _, id := range n.allocate("pod", amdCPX, 63) {
		got := definitions[id]
		if strings.Count(got, `"/dev/kfd"`) != 1 || strings.Count(got, `"/dev/dri/renderD`) != 1 || strings.Count(got, `"/dev/dri/card`) != 1 {
			t.Errorf("%s: a container gets %s; want /dev/kfd, a render node and a card node, each once", id, got)
		}
		for _, node := range strings.Split(got, `"`) {
			if strings.HasPrefix(node, "/dev/dri/") && nodes[node] != "" {
				t.Errorf("%s and %s have %s", id, nodes[node], node)
			} else if strings.HasPrefix(node, "/dev/dri/") {
				nodes[node] = id
			}
		}
	}
	n.kubelet.Free("pod")
	n.configureAMD(single, "")
	n.wantCounts(amdGPU, 63, 63)
	n.wantCounts(amdCPX, 0, 0)
	n.configureAMD(mixed, "")
	n.wantCounts(amdCPX, 63, 63)
	n.wantCounts(amdGPU, 0, 0)
	n.wantWritten()
	if now := n.backend("amd").PID; now != pid {
		t.Errorf("the backend is process %d, was %d", now, pid)
	}
}

// Verifies that no container starts with a partition on which a process still has
// memory, as KFD tells, that the process is named, and that it does when that is gone.
func TestAMDLeftovers(t *testing.T) {
	t.Parallel()
	n := newAMDNode(t, amdtree.NewMI300X("DPX", "NPS1"))
	namespaces := n.path("proc", "self", "ns") // those of the host, where all processes are seen
	n.change(os.MkdirAll(namespaces, 0o755))
	n.change(os.Symlink("pid:[4026531836]", filepath.Join(namespaces, "pid")))
	n.configureAMD(mixed, "prepare: {leftovers: fail}")
	n.startAMDAgent()
	n.wantCounts("amd.com/dpx_nps1", 16, 16)
	n.allocate("pod", "amd.com/dpx_nps1", 16)
	number, err := os.ReadFile(filepath.Join(n.tree.Node(6, 1), "gpu_id"))
	n.change(err)
	process := filepath.Join(n.tree.Sysfs(), "class/kfd/kfd/proc/4711")
	n.change(os.MkdirAll(process, 0o755))
	n.change(os.WriteFile(filepath.Join(process, "vram_"+strings.TrimSpace(string(number))), []byte("4096\n"), 0o600))
	_, err = n.kubelet.StartContainer(t.Context(), "pod", "main")
	if id := n.id(6) + "-dpx-1"; err == nil || !strings.Contains(err.Error(), id) || !strings.Contains(err.Error(), "4711") {
		t.Errorf("a container starts on what a process uses: %v; want an error that names %s and 4711", err, id)
	}
	n.change(os.RemoveAll(process))
	if _, err := n.kubelet.StartContainer(t.Context(), "pod", "main"); err != nil {
		t.Error(err)
	}
}

// Verifies that the chart's example values list the partitions of all styles, and the
// GPUs that have none, and that the one problem is the machine's GPUs of another vendor.
func TestAMDExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deployments/helm/accelmux/examples/amd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct{ Config string }
	if err := yaml.Unmarshal(text, &values); err != nil || values.Config == "" {
		t.Fatalf("the example has no configuration: %v", err)
	}
	n := newAMDNode(t, amdtree.NewMixed())
	n.configure(values.Config)
	n.startAMDAgent()
	for resource, units := range map[string]int{amdGPU: 1, amdSPX: 1, amdCPX: 8, "amd.com/dpx_nps1": 2, "amd.com/qpx_nps1": 4} {
		n.wantCounts(resource, units, units)
	}
	if p := n.problems(); !strings.Contains(p, "add the backend nvidia") || strings.Contains(strings.TrimSpace(p), "\n") {
		t.Errorf("the problems are %q, want the NVIDIA GPUs alone", p)
	}
	n.wantWritten()
}
