package main

import (
	"slices"
	"testing"

	"github.com/accelmux/accelmux/core/status"
)

// good is a node at rest at which nothing is wrong.
func good() *observation {
	units := func(h health) map[string]map[string]health {
		return map[string]map[string]health{gpuName: {"a-0": h, "a-1": healthy}, partName: {"b-0-p0::0": healthy, "b-0-p0::1": healthy}}
	}
	return &observation{
		Incidents: map[string]string{}, KubeletUp: true,
		Listed: units(unhealthy), Wanted: units(unhealthy), Connections: 2, Sockets: []string{"one.sock", "two.sock"},
		Known: map[string][]string{"a-0": {"c-reboot", "other"}}, Standing: map[string][]string{"a-0": {"c-reboot"}},
		Holds:  []hold{{"pod-1", gpuName, "a-1"}, {"pod-2", partName, "b-0-p0::0"}, {"pod-3", partName, "b-0-p0::1"}},
		Given:  []given{{Pod: "pod-1", Resource: gpuName, Name: "alpha.accelmux.io/gpu=a-1", Meant: "node", Means: "node"}},
		Agents: []agentSeen{{PID: 10, Role: status.RoleActive, Descriptors: 40, Baseline: 30}},
		Claims: claimsSeen{
			Sliced: true, Served: true, Drivers: []string{claimDriver}, Ended: true,
			Published: map[string]health{"i-0": healthy, "i-1": unhealthy}, Wants: map[string]health{"i-0": healthy, "i-1": unhealthy, "i-2": absent},
			Recorded: []string{"uid"}, Defined: []string{"uid"}, Alive: map[string]string{"uid": "claim-1"},
		},
		Backends: 2, Down: 1, Tasks: []task{{PID: 10, Parent: 1, State: "S"}, {PID: 20, Parent: 10, State: "R"}},
	}
}

// Verifies that every invariant is seen to fire, and only it, when it is broken on
// purpose, and that none does at a node at which nothing is wrong.
func TestInvariantsFire(t *testing.T) {
	breaks := map[string]map[string]func(*observation){
		oneContainer: {
			"a claim, too":                 func(o *observation) { o.Holds = append(o.Holds, hold{"claim-1", claimHold, "a-1"}) },
			"a replica of an exclusive":    func(o *observation) { o.Holds = append(o.Holds, hold{"pod-4", gpuName, "a-1::0"}) },
			"exclusive, though replicated": func(o *observation) { o.Holds = append(o.Holds, hold{"pod-4", partName, "b-0-p0"}) },
		},
		faultSticks: {
			"healthy with a fault": func(o *observation) { o.Listed[gpuName]["a-0"] = healthy },
		},
		advertised: {
			"unhealthy": func(o *observation) { o.Listed[gpuName]["a-1"] = unhealthy },
		},
		noGhosts: {
			"gone":                func(o *observation) { o.Wanted[gpuName]["a-1"] = absent },
			"not of this backend": func(o *observation) { delete(o.Wanted, partName) },
		},
		noticed: {
			"not forgotten": func(o *observation) { o.Recovered = []string{"a-0"} }, // of which c-reboot is known
		},
		serves: {"refused": func(o *observation) { o.Incidents[serves] = "no" }},
		namesResolve: {
			"redefined": func(o *observation) { o.Given[0].Means = "another node" },
		},
		othersUntouched: {"a dip": func(o *observation) { o.Incidents[othersUntouched] = "dipped" }},
		oneAgent: {
			"none": func(o *observation) { o.Agents, o.Tasks = nil, nil },
			"two": func(o *observation) {
				o.Agents = append(o.Agents, agentSeen{PID: 11, Role: status.RoleActive})
				o.Tasks = append(o.Tasks, task{PID: 21, Parent: 11, State: "S"})
			},
		},
		backendsRun:    {"in backoff": func(o *observation) { o.Waiting = []string{"alpha is in backoff"} }},
		registeredOnce: {"twice": func(o *observation) { o.Duplicates = 1 }},
		leakedProcess: {
			"an orphan":      func(o *observation) { o.Tasks[1].Parent = 1; o.Down = 2 },
			"one is missing": func(o *observation) { o.Tasks = o.Tasks[:1] },
		},
		leakedSocket:     {"a third": func(o *observation) { o.Sockets = append(o.Sockets, "three.sock") }},
		leakedDescriptor: {"many more": func(o *observation) { o.Agents[0].Descriptors = 31 + spareDescriptors }},
		leakedFile:       {"a temporary file": func(o *observation) { o.Strays = []string{"disk/state/.health.1.tmp"} }},
		slicesHold: {
			"no taint":       func(o *observation) { o.Claims.Published["i-1"] = healthy },
			"not registered": func(o *observation) { o.Claims.Drivers = nil },
		},
		claimsEnd: {
			"not unprepared": func(o *observation) { o.Claims.Ending = []string{"pod-1"} },
			"not recorded":   func(o *observation) { o.Claims.Recorded = nil },
		},
		releasedOnce: {
			"not released": func(o *observation) { o.Unreleased = []string{"i-0 of uid"} },
		},
		partitionsHold: {
			"overlap":   func(o *observation) { o.Claims.Made = map[string]string{"p-0-one-1": "x", "p-0-two-0": "y"} },
			"destroyed": func(o *observation) { o.Claims.Having = map[string]string{"p-0-one-1": "uid"} },
		},
		partitionsGone: {"left": func(o *observation) { o.Claims.Left = []string{"p-0-one-1 of x"} }},
		sharesHold:     {"more than there is": func(o *observation) { o.Claims.Shares = map[string]int64{"x": 5, "y": 4} }},
		resetBetween:   {"not reset": func(o *observation) { o.Incidents[resetBetween] = "no" }},
	}
	if broken := check(good(), func(invariant) bool { return true }); broken != nil {
		t.Fatalf("at a good node: %v", broken)
	}
	for _, i := range invariants() {
		if len(breaks[i.name]) == 0 || i.sentence == "" {
			t.Errorf("%s is not broken by this test, or has no sentence", i.name)
		}
		for name, spoil := range breaks[i.name] {
			o := good()
			spoil(o)
			var fired []string
			for _, other := range invariants() {
				if other.check(o) != "" {
					fired = append(fired, other.name)
				}
			}
			if !slices.Equal(fired, []string{i.name}) {
				t.Errorf("%s, %s: %q fire, want that one alone", i.name, name, fired)
			}
		}
	}
}
