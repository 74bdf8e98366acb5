package agent

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/diagram"
)

// linked has two hives of four GPUs on two NUMA nodes, and FPGAs without links.
const linked = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: mock
        settings:
          count: 8
          numaNodes: 2
          links: {topology: hive, size: 4, kind: xgmi, distance: 15}
          scenarioFile: DIR/scenario.yaml
        heartbeat: 300ms
        recovery: {delay: 0s}
      - name: other
        command: accelmux-backend-mock
        settings: {count: 2, class: fpga, id: "f-{{.Index}}"}
    resources:
      - {name: example.com/gpu, backend: mock}
      - {name: example.com/fpga, backend: other, allocation: {policy: none}}
`

// topologyOf runs accelmux topology with arguments, which must succeed.
func (n *node) topologyOf(args ...string) string {
	n.Helper()
	out, errs, code := accelmux(n.T, append(append([]string{"topology"}, args...), "--run-dir", n.path("run"))...)
	if code != 0 || errs != "" {
		n.Fatalf("accelmux topology %v: exit %d, %s", args, code, errs)
	}
	return out
}

// explained is what accelmux topology explain answers, as JSON.
func (n *node) explained(args ...string) (choice diagram.Choice) {
	n.Helper()
	text := n.topologyOf(append([]string{"explain", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(text), &choice); err != nil {
		n.Fatalf("%v in\n%s", err, text)
	}
	return choice
}

// Verifies that `accelmux topology` shows the devices and links, and explain tells what kubelet is then told, from what is
// free, broken and in use, and why; and what to do about a question that has no answer.
func TestExplain(t *testing.T) {
	t.Parallel()
	n := startNode(t, 8, linked)
	n.wantCounts(fpga, 2, 2)
	n.scenario(`devices: {mock-1: {fault: {code: xid-79, message: fell off the bus, recovery: reboot}}}`)
	n.wantFault("mock-1", "xid-79")
	if matrix := n.topologyOf(); !strings.Contains(matrix, "example.com/gpu: 8 devices, 7 free, 1 unhealthy; policy best-links") ||
		!strings.Contains(matrix, "XG1  XGMI (Infinity Fabric), distance 15 (weight 85)") {
		t.Errorf("the matrix is\n%s", matrix)
	}
	choice := n.explained("-n", "4", "--resource", gpu)
	if want := []string{"mock-4", "mock-5", "mock-6", "mock-7"}; !slices.Equal(choice.Chosen.Units, want) || len(choice.Available) != 7 {
		t.Errorf("chosen %+v", choice)
	}
	if choice.RunnerUp == nil || choice.Decides != "sumOfLinks" || !choice.Exact {
		t.Errorf("explained %+v", choice)
	}
	if given := n.allocate("team/pod", gpu, 4); !slices.Equal(given, choice.Chosen.Units) {
		t.Errorf("kubelet gave %v, explained was %v", given, choice.Chosen.Units)
	}
	choice = n.explained("-n", "3", "--resource", gpu)
	if want := []string{"mock-0", "mock-2", "mock-3"}; !slices.Equal(choice.Chosen.Units, want) || choice.RunnerUp != nil || choice.Chosen.Left.Units != 0 {
		t.Errorf("of the rest %+v", choice)
	}
	choice = n.explained("-n", "2", "--resource", gpu, "--must", "mock-5", "--available", "mock-3, mock-6")
	if want := []string{"mock-5", "mock-6"}; !slices.Equal(choice.Chosen.Units, want) || len(choice.Notes) != 1 {
		t.Errorf("beside one that is held %+v", choice)
	}
	if choice = n.explained("-n", "1", gpu, "--available", "all"); len(choice.Available) != 7 {
		t.Errorf("as if nothing were in use %+v", choice)
	}
	for args, want := range map[string]string{
		"example.com/gpus": `the node has no resource "example.com/gpus"; did you mean "example.com/gpu"?`,
		"explain -n 1":     "there are several resources, so name one: example.com/gpu, example.com/fpga",
	} {
		out, errs, code := accelmux(t, append([]string{"topology", "--run-dir", n.path("run")}, strings.Fields(args)...)...)
		if code != 1 || !strings.Contains(errs, want) || out != "" {
			t.Errorf("exit %d, printed %q and, as the error, %q; want exit 1 and %q", code, out, errs, want)
		}
	}
	out, _, code := accelmux(t, "__complete", "topology", "--run-dir="+n.path("run"), "")
	if code != 0 || !strings.Contains(out, "example.com/fpga\n") {
		t.Errorf("completion: exit %d, printed\n%s", code, out)
	}
}
