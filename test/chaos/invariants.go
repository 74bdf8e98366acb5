package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/status"
)

// The names of the invariants.
const (
	oneContainer     = "one-container"
	faultSticks      = "fault-sticks"
	advertised       = "advertised"
	noGhosts         = "no-ghosts"
	noticed          = "noticed"
	serves           = "serves"
	namesResolve     = "names-resolve"
	othersUntouched  = "others-untouched"
	oneAgent         = "one-agent"
	backendsRun      = "backends-run"
	registeredOnce   = "registered-once"
	leakedProcess    = "leaked-process"
	leakedSocket     = "leaked-socket"
	leakedDescriptor = "leaked-descriptor"
	leakedFile       = "leaked-file"
	slicesHold       = "slices"
	claimsEnd        = "claims-end"
	releasedOnce     = "released-once"
	resetBetween     = "reset-between"
	partitionsHold   = "partitions"
	partitionsGone   = "partitions-gone"
	sharesHold       = "shares"
)

// invariant is what must hold after every step: at once, or within the bound.
type invariant struct {
	name     string
	sentence string
	// always says that it must hold at every moment; the others within the bound of
	// what happened last.
	always bool
	// deep says that it is about what takes longer to look at.
	deep bool
	// check says what is wrong, "" for nothing.
	check func(*observation) string
}

// invariants are all of them.
func invariants() []invariant {
	return []invariant{
		{oneContainer, "No device is in two containers, unless both have replicas of it.", true, false, inOneContainer},
		{faultSticks, "No device is healthy at kubelet while a fault of it is not mended; once kubelet knows of it, not for a moment.", false, false, faultsShow},
		{advertised, "Every healthy device of every backend that works is healthy at kubelet within the bound.", false, false, allAdvertised},
		{noGhosts, "What is not there, or not configured, is not offered to containers.", false, false, nothingElse},
		{noticed, "The agent knows the devices, the faults and the recoveries that its backends report within the bound, and the faults that are not mended, also while kubelet is down.", false, false, allNoticed},
		{serves, "A container gets a device that is healthy and free, and starts with it, and starts again.", true, false, incident(serves)},
		{namesResolve, "Every CDI name that a container was given can be resolved by the CDI library, and means what it meant.", false, true, allResolve},
		{othersUntouched, "The capacity of a resource that a step is not about does not dip, not for a moment.", true, false, incident(othersUntouched)},
		{oneAgent, "One agent serves the node; each ends well when it is told to.", false, false, oneIsActive},
		{backendsRun, "Every backend of the configuration that can run is running again within the bound, and none with a program that is not the pinned one.", false, false, allRun},
		{registeredOnce, "No socket is registered that kubelet is connected to already.", true, false, noDuplicates},
		{leakedProcess, "Each agent has one process a backend, and no other process is left.", false, true, noProcesses},
		{leakedSocket, "There are no sockets in kubelet's directories but those that it is connected to.", false, true, noSockets},
		{leakedDescriptor, "No agent has many more files open than when it first was at rest.", false, true, noDescriptors},
		{leakedFile, "There are no temporary files, and nothing else that nobody uses.", false, true, noFiles},
		{slicesHold, "The slices have the devices that are for claims and in no container, the unhealthy ones with a taint, and kubelet has the driver.", false, false, slicesRight},
		{claimsEnd, "A claim that has ended is unprepared, and not in the agent's record nor in a CDI spec; every other one is.", false, true, claimsAreOver},
		{releasedOnce, "A backend is called to prepare a device for a claim once, and to release it once for each holder that it prepared it for: when that has ended, and not before. A claim that is refused it does not hear of, nor of admin access.", false, true, releasedRight},
		{resetBetween, "A device with reset: afterUse is given to no other holder without a reset that worked in between.", true, false, incident(resetBetween)},
		{partitionsHold, "No slice is in two partitions, and a partition exists as long as a pod has it.", true, false, partitionsRight},
		{partitionsGone, "No partition exists whose claim has ended.", false, false, partitionsEnd},
		{sharesHold, "The shares of a device that pods have are never more than the device has, and the containers find theirs.", true, false, sharesRight},
	}
}

// incident is the check of an invariant that is about what is seen in passing.
func incident(name string) func(*observation) string {
	return func(o *observation) string { return o.Incidents[name] }
}

func inOneContainer(o *observation) string {
	first := map[string]hold{}
	for _, h := range o.Holds {
		id, replica := deviceOf(h.Unit)
		before, taken := first[id]
		_, shared := deviceOf(before.Unit)
		switch {
		case !taken:
			first[id] = h
		case !replica || !shared || before.Unit == h.Unit && before.Resource == h.Resource:
			return fmt.Sprintf("%s has %s of %s, and %s has %s of %s", before.Pod, before.Unit, before.Resource, h.Pod, h.Unit, h.Resource)
		}
	}
	return ""
}

// compare goes through what kubelet was told of the wanted resources' units, sorted.
func compare(o *observation, wrong func(listed, wanted health) bool) string {
	for _, resource := range slices.Sorted(maps.Keys(o.Wanted)) {
		for _, unit := range slices.Sorted(maps.Keys(o.Wanted[resource])) {
			listed, ok := o.Listed[resource][unit]
			if !ok {
				listed = absent
			}
			if wanted := o.Wanted[resource][unit]; o.KubeletUp && wrong(listed, wanted) {
				return fmt.Sprintf("%s of %s is %v at kubelet, and should be %v", unit, resource, listed, wanted)
			}
		}
	}
	return ""
}

func faultsShow(o *observation) string {
	if what := o.Incidents[faultSticks]; what != "" {
		return what
	}
	return compare(o, func(listed, wanted health) bool { return listed == healthy && wanted&healthy == 0 && wanted != absent })
}

func allAdvertised(o *observation) string {
	return compare(o, func(listed, wanted health) bool { return listed != healthy && wanted&listed == 0 })
}

func nothingElse(o *observation) string {
	if what := compare(o, func(listed, wanted health) bool { return wanted == absent && listed == healthy }); what != "" {
		return what
	}
	for _, resource := range slices.Sorted(maps.Keys(o.Listed)) {
		for _, unit := range slices.Sorted(maps.Keys(o.Listed[resource])) {
			if _, wanted := o.Wanted[resource][unit]; o.KubeletUp && !wanted && o.Listed[resource][unit] == healthy {
				return fmt.Sprintf("%s of %s is healthy at kubelet, and is nothing of this node", unit, resource)
			}
		}
	}
	return ""
}

func allNoticed(o *observation) string {
	for _, id := range slices.Sorted(maps.Keys(o.Standing)) {
		codes, ok := o.Known[id]
		if !ok {
			return fmt.Sprintf("the agent does not know %s", id)
		}
		for _, code := range o.Standing[id] {
			if !slices.Contains(codes, code) {
				return fmt.Sprintf("the agent knows of %s only %q, and not %s", id, codes, code)
			}
		}
	}
	for _, id := range o.Recovered {
		for _, code := range o.Known[id] {
			if strings.HasPrefix(code, reported) {
				return fmt.Sprintf("the agent does not know that %s has recovered, but of %q", id, code)
			}
		}
	}
	return ""
}

func allResolve(o *observation) string {
	for _, g := range o.Given {
		switch {
		case g.Excused:
		case g.Meant == "":
			return fmt.Sprintf("%s of %s was given the name %s, which could not be resolved at that moment", g.Pod, g.Resource, g.Name)
		case g.Means == "":
			return fmt.Sprintf("%s of %s was given the name %s, which cannot be resolved", g.Pod, g.Resource, g.Name)
		case g.Means != g.Meant:
			return fmt.Sprintf("%s of %s was given the name %s, which meant %s and now means %s", g.Pod, g.Resource, g.Name, g.Meant, g.Means)
		}
	}
	return ""
}

func oneIsActive(o *observation) string {
	for _, a := range o.Agents {
		if a.Role != status.RoleActive {
			return fmt.Sprintf("agent %d is %q (%s), and should be active", a.PID, a.Role, a.Error)
		}
	}
	if len(o.Agents) != 1 {
		return fmt.Sprintf("%d agents are active", len(o.Agents))
	}
	return ""
}

func allRun(o *observation) string { return strings.Join(o.Waiting, ", ") }

func noDuplicates(o *observation) string {
	if o.Duplicates > 0 {
		return fmt.Sprintf("%d sockets were registered twice", o.Duplicates)
	}
	return ""
}

func noProcesses(o *observation) string {
	children := map[int]int{}
	agents := map[int]bool{}
	for _, a := range o.Agents {
		agents[a.PID] = true
	}
	for _, t := range o.Tasks {
		if agents[t.PID] {
			continue
		}
		if !agents[t.Parent] || t.State == "Z" || t.State == "T" {
			return fmt.Sprintf("process %d (%s, state %s) is left by process %d", t.PID, t.Name, t.State, t.Parent)
		}
		children[t.Parent]++
	}
	for pid := range agents {
		if n, least := children[pid], o.Backends-o.Down; n < least || n > o.Backends {
			return fmt.Sprintf("agent %d has %d backend processes, and should have %d to %d", pid, n, least, o.Backends)
		}
	}
	return ""
}

func noSockets(o *observation) string {
	if o.KubeletUp && len(o.Sockets) > o.Connections {
		return fmt.Sprintf("%d sockets for %d connections: %s", len(o.Sockets), o.Connections, strings.Join(o.Sockets, ", "))
	}
	return ""
}

// spareDescriptors is how many more files an agent may have open than at first: a
// backend more, a connection of kubelet, somebody who asks.
const spareDescriptors = 24

func noDescriptors(o *observation) string {
	for _, a := range o.Agents {
		if a.Baseline > 0 && a.Descriptors > a.Baseline+spareDescriptors {
			return fmt.Sprintf("agent %d has %d files open, and had %d when it was first at rest", a.PID, a.Descriptors, a.Baseline)
		}
	}
	return ""
}

func noFiles(o *observation) string {
	if len(o.Strays) > 0 {
		return strings.Join(o.Strays, ", ")
	}
	return ""
}
