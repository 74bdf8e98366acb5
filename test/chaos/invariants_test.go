package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
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
			"one unit twice":               func(o *observation) { o.Holds = append(o.Holds, hold{"pod-4", gpuName, "a-1"}) },
			"under another name":           func(o *observation) { o.Holds = append(o.Holds, hold{"pod-4", bigName, "a-1"}) },
			"a replica of an exclusive":    func(o *observation) { o.Holds = append(o.Holds, hold{"pod-4", gpuName, "a-1::0"}) },
			"one replica twice":            func(o *observation) { o.Holds = append(o.Holds, hold{"pod-4", partName, "b-0-p0::0"}) },
			"exclusive, though replicated": func(o *observation) { o.Holds = append(o.Holds, hold{"pod-4", partName, "b-0-p0"}) },
		},
		faultSticks: {
			"healthy with a fault": func(o *observation) { o.Listed[gpuName]["a-0"] = healthy },
			"for a moment":         func(o *observation) { o.Incidents[faultSticks] = "healthy again" },
		},
		advertised: {
			"unhealthy":   func(o *observation) { o.Listed[gpuName]["a-1"] = unhealthy },
			"not listed":  func(o *observation) { delete(o.Listed[gpuName], "a-1") },
			"no resource": func(o *observation) { delete(o.Listed, gpuName) },
			"not served":  func(o *observation) { o.Listed[gpuName]["a-1"] = unhealthy | absent },
		},
		noGhosts: {
			"gone":                func(o *observation) { o.Wanted[gpuName]["a-1"] = absent },
			"unknown":             func(o *observation) { o.Listed[gpuName]["a-9"] = healthy },
			"of an old resource":  func(o *observation) { o.Listed[bigName] = map[string]health{"a-0": healthy} },
			"not of this backend": func(o *observation) { delete(o.Wanted, partName) },
		},
		noticed: {
			"no such device": func(o *observation) { delete(o.Known, "a-0") },
			"forgotten":      func(o *observation) { o.Known["a-0"] = []string{"other"} },
			"not forgotten":  func(o *observation) { o.Recovered = []string{"a-0"} }, // of which c-reboot is known
		},
		serves: {"refused": func(o *observation) { o.Incidents[serves] = "no" }},
		namesResolve: {
			"unresolved":  func(o *observation) { o.Given[0].Means = "" },
			"never there": func(o *observation) { o.Given[0].Meant = "" },
			"redefined":   func(o *observation) { o.Given[0].Means = "another node" },
		},
		othersUntouched: {"a dip": func(o *observation) { o.Incidents[othersUntouched] = "dipped" }},
		oneAgent: {
			"none":      func(o *observation) { o.Agents, o.Tasks = nil, nil },
			"waits":     func(o *observation) { o.Agents[0].Role = status.RoleStandby },
			"no answer": func(o *observation) { o.Agents[0].Role = "" },
			"two": func(o *observation) {
				o.Agents = append(o.Agents, agentSeen{PID: 11, Role: status.RoleActive})
				o.Tasks = append(o.Tasks, task{PID: 21, Parent: 11, State: "S"})
			},
		},
		backendsRun:    {"in backoff": func(o *observation) { o.Waiting = []string{"alpha is in backoff"} }},
		registeredOnce: {"twice": func(o *observation) { o.Duplicates = 1 }},
		leakedProcess: {
			"an orphan":      func(o *observation) { o.Tasks[1].Parent = 1; o.Down = 2 },
			"a zombie":       func(o *observation) { o.Tasks[1].State = "Z" },
			"a stopped one":  func(o *observation) { o.Tasks[1].State = "T" },
			"one too many":   func(o *observation) { o.Backends, o.Down = 0, 0 },
			"one is missing": func(o *observation) { o.Tasks = o.Tasks[:1] },
		},
		leakedSocket:     {"a third": func(o *observation) { o.Sockets = append(o.Sockets, "three.sock") }},
		leakedDescriptor: {"many more": func(o *observation) { o.Agents[0].Descriptors = 31 + spareDescriptors }},
		leakedFile:       {"a temporary file": func(o *observation) { o.Strays = []string{"disk/state/.health.1.tmp"} }},
		slicesHold: {
			"no taint":         func(o *observation) { o.Claims.Published["i-1"] = healthy },
			"a taint":          func(o *observation) { o.Claims.Published["i-0"] = unhealthy },
			"missing":          func(o *observation) { delete(o.Claims.Published, "i-0") },
			"in a container":   func(o *observation) { o.Claims.Published["i-2"] = healthy },
			"no such device":   func(o *observation) { o.Claims.Published["i-9"] = healthy },
			"not registered":   func(o *observation) { o.Claims.Drivers = nil },
			"one device twice": func(o *observation) { o.Claims.Trouble = "device i-0 is published twice" },
		},
		claimsEnd: {
			"not unprepared": func(o *observation) { o.Claims.Ending = []string{"pod-1"} },
			"recorded":       func(o *observation) { o.Claims.Recorded = append(o.Claims.Recorded, "old") },
			"defined":        func(o *observation) { o.Claims.Defined = append(o.Claims.Defined, "old") },
			"not recorded":   func(o *observation) { o.Claims.Recorded = nil },
		},
		releasedOnce: {
			"not released": func(o *observation) { o.Unreleased = []string{"i-0 of uid"} },
			"still in use": func(o *observation) { o.Released = []string{"i-0 of claim-1 (uid)"} },
			"a call amiss": func(o *observation) { o.Incidents[releasedOnce] = "i-0 was prepared twice" },
		},
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

// Verifies that what kubelet has yet to forget of a resource that nobody serves is no
// matter.
func TestNotServed(t *testing.T) {
	o := good()
	for unit := range o.Wanted[gpuName] {
		o.Wanted[gpuName][unit], o.Listed[gpuName][unit] = absent, unhealthy|absent
	}
	if broken := check(o, func(i invariant) bool { return i.name != noticed }); broken != nil {
		t.Error(broken)
	}
}

// Verifies that what is seen in passing is: a fault that is healthy for a moment, and a
// dip; and that what a step is about is spared.
func TestWatch(t *testing.T) {
	stuck := func() map[string]string { return map[string]string{"a-0": "reboot"} }
	list := []*pluginapi.Device{{ID: "a-0::1", Health: pluginapi.Healthy}, {ID: "a-1", Health: pluginapi.Healthy}}
	dip := kubelettest.Event{Type: kubelettest.EventDevices, Resource: gpuName, Allocatable: 1}
	for name, c := range map[string]struct {
		spare func(*watch)
		want  string
	}{
		"nothing is spared": {func(*watch) {}, faultSticks + " " + othersUntouched},
		"the device":        {func(w *watch) { w.mending("a-0") }, othersUntouched},
		"all devices":       {(*watch).mendingAll, othersUntouched},
		"the resource":      {func(w *watch) { w.spare(gpuName) }, faultSticks},
		"another resource":  {func(w *watch) { w.spare(partName) }, faultSticks + " " + othersUntouched},
		"all resources":     {(*watch).spareAll, faultSticks},
		"another device":    {func(w *watch) { w.mending("a-1") }, faultSticks + " " + othersUntouched},
	} {
		w := newWatch()
		w.rest(map[string]int{gpuName: 2}, stuck())
		c.spare(w)
		w.devices(gpuName, list)
		w.event(dip)
		var got []string
		for name := range maps.Keys(w.seen()) {
			got = append(got, name)
		}
		for _, name := range got {
			if !strings.Contains(c.want, name) {
				t.Errorf("%s: %s fires", name, name)
			}
		}
		if len(got) != len(strings.Fields(c.want)) {
			t.Errorf("%s: %q fire, want %q", name, got, c.want)
		}
	}
}
