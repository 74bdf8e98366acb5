package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKubectl verifies `kubectl accelmux` against a real API server and its proxy: the devices with the pod that has one,
// the topology by exec, a cordon that keeps a device from a pod and says who did it, and why that pod waits.
func TestKubectl(t *testing.T) {
	n := begin(t)
	n.install(eightGPUs)
	n.start("train", gpu, 2)
	accelmux := func(args ...string) string {
		t.Helper()
		return n.must(filepath.Join(os.Getenv("ACCELMUX_BIN"), "kubectl-accelmux"), args...)
	}
	var lines []string
	n.eventually("the pod has devices", func() bool {
		lines = strings.Split(strings.TrimSpace(accelmux("devices", "--no-headers")), "\n")
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
	if got := accelmux("pods", "--namespace="+pods); !strings.Contains(got, "train") || !strings.Contains(got, held) {
		t.Errorf("the pods are\n%s", got)
	}
	if got := accelmux("topology", "node"); !strings.Contains(got, "NUMA") {
		t.Errorf("the topology is\n%s", got)
	}

	accelmux("cordon", "node", held, "--reason=the fan rattles")
	n.wantCounts(gpu, 8, 7)
	n.create(newPod("big", gpu, 7))
	n.eventually("the reason why the pod waits", func() bool {
		why := accelmux("why", "big", "--namespace="+pods)
		return strings.Contains(why, "the scheduler: ") && strings.Contains(why, "it asks for 7 "+gpu) &&
			strings.Contains(why, held+" is unhealthy: cordoned") && strings.Contains(why, "cordoned by admin: the fan rattles")
	})
	if why := accelmux("why", "train", "--namespace="+pods); !strings.Contains(why, held+", unhealthy: cordoned") {
		t.Errorf("of the pod that has it:\n%s", why)
	}
	accelmux("uncordon", "node", held)
	n.wantCounts(gpu, 8, 8)
}
