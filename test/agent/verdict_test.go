package agent

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/diagram"
)

// A device that no container could be started with is unhealthy for whoever asks, each
// with the same reason: one whose device node is not on the node. When the node is there,
// so is the device. One with edits that CDI cannot carry is left out by its backend.
func TestUnusableEdits(t *testing.T) {
	t.Parallel()
	const two = `devices: [{count: 2}, {count: 1, edits: {deviceNodes: [{path: /dev/accel9}]}}, {count: 1, edits: {env: {ACCELMUX_MOCK_VISIBLE: "{{.ID}}"}, envSeparators: {ACCELMUX_MOCK_VISIBLE: ","}}}]`
	n := newNode(t)
	n.write("null", "")
	if err := os.Mkdir(n.path("dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(n.path("null"), n.path("dev", "null")); err != nil {
		t.Fatal(err)
	}
	n.startKubelet()
	n.configure(strings.NewReplacer("count: 4, numaNodes: 2", two, "recovery: {delay: 0s}", "recovery: {delay: 0s}\n        allow: {devices: [/dev/accel*]}",
		"{name: example.com/gpu}", "{name: example.com/gpu, injection: cdi}").Replace(oneBackend))
	options := n.options()
	options.HostPaths.Devfs = n.path("dev")
	withMetrics(&options)
	n.startAgentWith(options)

	n.wantCounts(gpu, 3, 2)
	n.wantUnusable(map[string]string{"mock-2": "device-node-missing"})
	n.wantProblem("mock-2", "/dev/accel9")
	n.wantProblem("mock-3", "its only edits are joined variables")
	if _, err := n.kubelet.Allocate(t.Context(), "pod", "main", gpu, 3); err == nil {
		t.Error("a pod got a device that no container can be started with")
	}

	if err := os.WriteFile(n.path("dev", "accel9"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n.wantCounts(gpu, 3, 3)
	n.wantUnusable(nil)
}

// wantUnusable waits until these devices of the resource gpu, and no others, are unhealthy
// with that code, in status, in the list of devices, in metrics and for topology.
func (n *node) wantUnusable(codes map[string]string) {
	n.Helper()
	var lines []string
	for i := range 3 {
		id := fmt.Sprintf("mock-%d", i)
		healthy := 1
		if code := codes[id]; code != "" {
			healthy = 0
			lines = append(lines, fmt.Sprintf(`accelmux_device_fault_info{backend="mock",code="%s",device="%s"} 1`, code, id))
		}
		lines = append(lines, fmt.Sprintf(`accelmux_device_healthy{backend="mock",device="%s",resource="example.com/gpu"} %d`, id, healthy))
	}
	n.wantMetrics(append(lines, fmt.Sprintf(`accelmux_resource_healthy_units{resource="example.com/gpu"} %d`, 3-len(codes)))...)
	for _, d := range n.agent.Devices() {
		code := ""
		if len(d.Faults) > 0 {
			code = d.Faults[0].Code
		}
		if code != codes[d.ID] || d.Healthy != (code == "") {
			n.Errorf("device %s: healthy %v with the fault %q, want %q", d.ID, d.Healthy, code, codes[d.ID])
		}
	}
	if r := n.agent.Report().Resources[0]; r.Healthy != 3-len(codes) {
		n.Errorf("status has %d of %d healthy, want all but %d", r.Healthy, r.Units, len(codes))
	}
	choice, err := n.agent.Explain(n.Context(), diagram.Question{Resource: gpu, Size: 1})
	if err != nil {
		n.Fatal(err)
	}
	for id := range codes {
		if slices.Contains(choice.Available, id) {
			n.Errorf("topology explain has %s among %v", id, choice.Available)
		}
	}
}
