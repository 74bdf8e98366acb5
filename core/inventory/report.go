package inventory

import (
	"errors"
	"fmt"
	"slices"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// report is what validation leaves of one inventory.
type report struct {
	devices  []*Device
	problems []Problem
	// refusedByPolicy counts devices that are sound but touch what the node's
	// configuration does not allow.
	refusedByPolicy int
	// defects are those of the devices; nil if there are none.
	defects *defects
	// amended: the devices are those of the inventory in force but for the ones at the
	// places in changed. Without it nothing is known of that.
	amended bool
	changed []int
}

var errTwice = errors.New("its ID comes twice")

// entry is a device that stays, as it was found in a report.
type entry struct {
	device *Device
	links  []*backendv1.Link
	place  int // in the report
	// mended: something of it was put right.
	mended bool
}

// parseReport checks a whole inventory: each device, then what holds between
// them. Devices that are equal to one in force are that one; those whose bytes are the
// same are not even decoded.
func parseReport(p *parser, backend string, w *Wire, k *known) report {
	var (
		out     report
		left    problems // devices left out
		remarks problems // devices that stay
		listed  = make(map[string]*Device, w.Len())
		stay    = make([]entry, 0, w.Len())
	)
	keep := func(e entry) {
		listed[e.device.ID] = e.device
		stay = append(stay, e)
	}
	for i := range w.Len() {
		if d := k.unchanged(w.at(i)); d != nil && listed[d.ID] == nil {
			keep(entry{device: d, place: i})
			continue
		}
		d, wire, remark, err := p.decode(backend, w, i)
		if err == nil && listed[d.ID] != nil {
			if err = errTwice; !left.full() { // the first is looked for among all
				first := slices.IndexFunc(stay, func(e entry) bool { return e.device.ID == d.ID })
				err = fmt.Errorf("its ID is also that of device %d of the report, which counts; IDs must be unique", stay[first].place+1)
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
		keep(entry{d, wire.GetLinks(), i, remark != ""})
	}
	stay = dropNested(stay, listed, &left)
	out.devices = make([]*Device, 0, len(stay))
	for i := range stay {
		e := &stay[i]
		if remark := e.join(w.Len(), listed, k); remark != "" {
			remarks.add(e.device.ID, "%s", remark)
			e.mended = true
		}
		out.devices = append(out.devices, e.device)
	}
	out.defects = newDefects(w.Len(), stay, &left, &remarks)
	out.problems = out.defects.problems(w)
	return out
}

// join gives the device, one of so many, its links to those that are listed, and makes it the one in
// force if it is equal to that. The remark says which links are dropped.
func (e *entry) join(devices int, listed map[string]*Device, k *known) (remark string) {
	d, before := e.device, k.before(e.device.ID)
	if d == before {
		return ""
	}
	d.Links, remark = links(d, devices, e.links, func(id string) *Device { return listed[id] })
	if before != nil {
		if d.shareWith(before); equalDevice(before, d) {
			e.device = before
		}
	}
	return remark
}

// decode is the device at a place, and its wire also with an error.
func (p *parser) decode(backend string, w *Wire, i int) (d *Device, wire *backendv1.Device, remark string, err error) {
	if wire, err = w.device(i); err == nil {
		d, remark, err = p.device(backend, wire)
	}
	return d, wire, remark, err
}

// dropNested leaves out devices whose parents go round in a circle, or further
// up than makes sense, so that nobody who follows parents needs to care.
func dropNested(stay []entry, listed map[string]*Device, left *problems) []entry {
	var bad []*Device
	for _, e := range stay {
		level := 0
		for up := e.device; up != nil && level <= maxParents; level++ {
			up = listed[up.Parent]
		}
		if level > maxParents {
			bad = append(bad, e.device)
			left.add(e.device.ID, "the device is left out: its parents go round in a circle or further up than %d levels", maxParents)
		}
	}
	if len(bad) == 0 {
		return stay
	}
	for _, d := range bad {
		delete(listed, d.ID)
	}
	return slices.DeleteFunc(stay, func(e entry) bool { return listed[e.device.ID] == nil })
}

// problems is a bounded list that knows how much it left out.
type problems struct {
	kept []Problem
	more int
}

// full says that no more are kept, only counted.
func (p *problems) full() bool { return len(p.kept) == MaxProblems }

func (p *problems) add(device, format string, args ...any) {
	if p.full() {
		p.more++
		return
	}
	p.kept = append(p.kept, Problem{Device: device, Message: cut(fmt.Sprintf(format, args...), maxMessage)})
}

func (p *problems) list(what string) []Problem {
	if p.more == 0 {
		return p.kept
	}
	return append(p.kept, Problem{Message: fmt.Sprintf("and %d more %s", p.more, what)})
}

// own are the backend's own sentences, made printable.
func own(wire []string) []Problem {
	var p problems
	for _, sentence := range wire {
		if sentence = printable(sentence, maxMessage); sentence != "" {
			p.add("", "%s", sentence)
		}
	}
	return p.list("problems of the backend's")
}

// printableID is an ID as it is if it is one, else quoted and short.
func printableID(id string) string {
	if checkID("", id) == nil {
		return id
	}
	return quote(id)
}
