package node

import (
	"slices"
	"testing"
	"time"
)

// Two profiles by the node's label. In both are example.com/gpu, of one backend with
// different settings, and example.com/nic, of another backend in each; the rest is
// in one of them only.
const twoProfiles = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: red
    nodeSelector: {matchLabels: {example.com/accelerator: red}}
    backends:
      - name: mock
        settings: {count: 4}
      - name: red
        command: accelmux-backend-mock
        settings:
          devices: [{count: 3, id: "nic-{{.Number}}", class: nic}, {count: 2, id: "red-{{.Number}}", class: npu}]
    resources:
      - {name: example.com/gpu, backend: mock}
      - {name: example.com/nic, class: nic}
      - {name: example.com/red}
  - name: blue
    nodeSelector: {matchLabels: {example.com/accelerator: blue}}
    backends:
      - name: mock
        settings: {count: 4, model: M2}
      - name: blue
        command: accelmux-backend-mock
        settings:
          devices: [{count: 3, id: "nic-{{.Number}}", class: nic}, {count: 5, id: "blue-{{.Number}}", class: fpga}]
    resources:
      - {name: example.com/gpu, backend: mock}
      - {name: example.com/nic, class: nic}
      - {name: example.com/blue}
`

const (
	nic  = "example.com/nic"
	red  = "example.com/red"
	blue = "example.com/blue"
)

// The node's label is switched between two profiles, to and fro. Resources in both
// keep their capacity in every view, also where another backend provides them; what
// went away goes to 0, and what came is in node.status soon after kubelet's next update:
// the fastest of the six times says so, as the machine may be busy in others.
// A pod keeps its device while its profile is not in force, through restarts of its
// container.
func TestLabelSwitchesProfiles(t *testing.T) {
	const switchLimit = 5 * time.Second // beside kubelet's period; several times what it takes
	fastest := patience
	n := begin(t)
	n.label("red")
	n.install(twoProfiles)
	n.wantCounts(red, 2, 2)
	pod := n.start("holder", red, 2)
	held := n.held("holder", red)

	w := n.watch(gpu, nic)
	for i := range 6 {
		come, went, units := blue, red, int64(5)
		if i%2 == 1 {
			come, went, units = red, blue, 2
		}
		start := time.Now()
		n.label(come[len("example.com/"):])
		n.wantCounts(come, units, units)
		took := time.Since(start)
		t.Logf("from the label to %s in node.status: %v", come, took.Round(time.Millisecond))
		fastest = min(fastest, took)
		n.wantCounts(went, 0, 0)
		if i == 0 {
			n.wantUntouched(pod)
			pod = n.restartContainer("holder")
			if sees := n.inside("holder"); !slices.Equal(sees.nodes, held) {
				t.Errorf("in the other profile and after a restart the container sees %v of its devices %v", sees.nodes, held)
			}
		}
	}
	if fastest > statusPeriod+switchLimit {
		t.Errorf("from the label to node.status it took never less than %v, which is more than %v over kubelet's period of %v", fastest, switchLimit, statusPeriod)
	}
	w.wantNoDip()
	n.wantUntouched(pod)
	if now := n.held("holder", red); !slices.Equal(now, held) {
		t.Errorf("the pod had %v and now has %v", held, now)
	}
}
