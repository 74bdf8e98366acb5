package agent

import (
	"testing"

	"github.com/accelmux/accelmux/core/cordon"
)

// Verifies that a device that the Node's annotation names goes to no new pod while its holder keeps it, who did that and
// why, also after a restart without the API server and while the annotation is not valid; and that it is
// allocated again without the entry.
func TestCordon(t *testing.T) {
	t.Parallel()
	n, server, options := startCluster(t, "", 4, vendor("red"))
	id := n.allocate("holder", gpu, 1)[0]
	if err := n.startContainer("holder"); err != nil {
		t.Fatal(err)
	}
	value, err := cordon.Add("", cordon.Entry{Device: "red/" + id, By: "alice", Reason: "the fan rattles"})
	if err != nil {
		t.Fatal(err)
	}
	annotate := func(value string) { server.SetAnnotations(map[string]string{cordon.Annotation: value}) }
	annotate(value)
	n.wantCounts(gpu, 4, 3)
	n.wantFault(id, "cordoned")
	n.wantProblem(id, "cordoned by alice: the fan rattles")
	if d := n.device(id); len(d.Holders) != 1 || d.Faults[0].Reach != "new-holders" {
		t.Errorf("the device is %+v", d)
	}

	annotate("red/" + id)
	n.wantProblem("must be a JSON list")
	n.stopAgent()
	server.Away(true)
	n.startAgentWith(options)
	n.wantCounts(gpu, 4, 3)
	n.wantFault(id, "cordoned")
	server.Away(false)

	other, err := cordon.Add(value, cordon.Entry{Device: "red/red-9"})
	if err != nil {
		t.Fatal(err)
	}
	annotate(other)
	n.wantProblem("backend red has no such device")
	annotate("")
	n.wantCounts(gpu, 4, 4)
	if d := n.device(id); !d.Healthy || len(d.Holders) != 1 {
		t.Errorf("the device is %+v", d)
	}
}
