package sdk

import (
	"strings"
	"testing"
)

// A device whose only edits are joined variables is left out with a problem that names it; with
// another edit it is listed.
func TestOnlyJoinedVariables(t *testing.T) {
	r := newReporter()
	edits := &Edits{}
	JoinedEnv(edits, "A", "a", ",")
	both := Nodes("/dev/null")
	JoinedEnv(both, "A", "b", ",")
	r.Publish([]*Device{{Id: "joined", Edits: edits}, {Id: "both", Edits: both}, {Id: "none"}}, "first")
	got := newest(t, r)
	if len(got.Devices) != 2 || got.Devices[0].GetId() != "both" || len(got.Problems) != 2 || got.Problems[0] != "first" ||
		!strings.HasPrefix(got.Problems[1], "device joined is left out: its only edits are joined variables") {
		t.Errorf("%v", got)
	}
	if e := got.Devices[0].GetEdits(); e.GetEnv()["A"] != "b" || e.GetEnvSeparators()["A"] != "," {
		t.Errorf("edits %v", e)
	}
	labels := []*NodeLabel{{Name: "a.b/c", Value: "\xff"}, {Name: "a.b/d"}}
	r.PublishInventory(Inventory{CounterSets: []*CounterSet{{Name: "x"}}, NodeLabels: labels})
	again := newest(t, r)
	if len(again.CounterSets) != 1 || again.Generation != got.Generation+1 || len(again.NodeLabels) != 1 || len(again.Problems) != 1 {
		t.Errorf("%v", again)
	}
}
