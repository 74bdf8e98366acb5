package inventory

import (
	"errors"
	"fmt"
	"slices"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// report is the valid part of one inventory.
type report struct {
	devices  []*Device
	sets     []CounterSet
	problems []Problem
	// refusedByPolicy counts devices that are valid but need what the node's configuration
	// does not allow.
	refusedByPolicy int
}

// entry is a device of a report that passed the checks so far.
type entry struct {
	device *Device
	links  []*backendv1.Link
}

// parseReport checks a whole inventory: each device, then the relations between them. A device
// that equals the one with its ID in before is that one, so that callers may compare pointers.
func parseReport(p *parser, backend string, w *backendv1.Inventory, before []*Device) report {
	var (
		out     report
		left    problems // devices left out
		remarks problems // devices that stay
		places  = make(map[string]int, len(w.GetDevices()))
		entries = make([]entry, 0, len(w.GetDevices()))
	)
	out.sets = counterSets(w.GetCounterSets(), &remarks)
	whole, rest := newBudget(out.sets), newBudget(out.sets)
	for i, wire := range w.GetDevices() {
		d, remark, err := p.device(backend, wire)
		if err == nil {
			if first, twice := places[d.ID]; twice {
				err = fmt.Errorf("its ID is also that of device %d of the report, which stays; IDs must be unique", first+1)
			} else {
				err = rest.consume(d, whole)
			}
		}
		if err != nil {
			var policy *policyError
			if errors.As(err, &policy) {
				out.refusedByPolicy++
			}
			left.add(printableID(wire.GetId()), "device %d of the report is left out: %s", i+1, err)
			continue
		}
		if remark != "" {
			remarks.add(d.ID, "%s", remark)
		}
		places[d.ID] = i
		entries = append(entries, entry{d, wire.GetLinks()})
	}
	entries, listed := dropNested(entries, &left)
	known := byID(before)
	out.devices = make([]*Device, 0, len(entries))
	for _, e := range entries {
		d := e.device
		var remark string
		if d.Links, remark = links(d, len(w.GetDevices()), e.links, listed); remark != "" {
			remarks.add(d.ID, "%s", remark)
		}
		if old := known[d.ID]; old != nil && equalDevice(old, d) {
			d = old
		}
		out.devices = append(out.devices, d)
	}
	out.problems = slices.Concat(left.list("devices are left out"), reported(w.GetProblems()), remarks.list("devices have defects"))
	return out
}

// dropNested leaves out devices whose parents form a cycle or more than maxParents levels,
// so that callers may follow parents without a check. listed has the others by ID.
func dropNested(entries []entry, left *problems) (stay []entry, listed map[string]*Device) {
	listed = make(map[string]*Device, len(entries))
	for _, e := range entries {
		listed[e.device.ID] = e.device
	}
	var nested []string
	for _, e := range entries {
		level := 0
		for up := e.device; up != nil && level <= maxParents; level++ {
			up = listed[up.Parent]
		}
		if level > maxParents {
			nested = append(nested, e.device.ID)
			left.add(e.device.ID, "the device is left out: its parents form a cycle or more than %d levels", maxParents)
		}
	}
	for _, id := range nested {
		delete(listed, id)
	}
	return slices.DeleteFunc(entries, func(e entry) bool { return listed[e.device.ID] == nil }), listed
}

// problems is a bounded list with the number of omitted ones.
type problems struct {
	first []Problem
	more  int
}

func (p *problems) add(device, format string, args ...any) {
	if len(p.first) == MaxProblems {
		p.more++
		return
	}
	p.first = append(p.first, Problem{Device: device, Message: cut(fmt.Sprintf(format, args...), maxMessage)})
}

func (p *problems) list(what string) []Problem {
	if p.more == 0 {
		return p.first
	}
	return append(p.first, Problem{Message: fmt.Sprintf("and %d more %s", p.more, what)})
}

// reported returns the problems that the backend reports, made printable.
func reported(wire []string) []Problem {
	var p problems
	for _, message := range wire {
		if message = printable(message, maxMessage); message != "" {
			p.add("", "%s", message)
		}
	}
	return p.list("problems of the backend's")
}

// printableID returns a valid ID as it is, another one quoted and short.
func printableID(id string) string {
	if checkID("", id) == nil {
		return id
	}
	return quote(id)
}
