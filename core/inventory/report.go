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
	// defects: devices are left out, or have something that was put right.
	defects bool
	// amended: the devices are those of the inventory in force but for the ones at the
	// places in changed. Without it nothing is known of that.
	amended bool
	changed []int
}

var errTwice = errors.New("its ID comes twice")

// parseReport checks a whole inventory: each device, then what holds between
// them. Devices that are equal to one in force are that one; those whose bytes are the
// same are not even decoded.
func parseReport(p *parser, backend string, w *Wire, k *known) report {
	var (
		out     report
		left    problems // devices left out
		remarks problems // devices that stay
		listed  = make(map[string]*Device, w.Len())
		wired   = make([][]*backendv1.Link, 0, w.Len())
		places  = make([]int, 0, w.Len()) // in the report
	)
	out.devices = make([]*Device, 0, w.Len())
	keep := func(i int, d *Device, links []*backendv1.Link) {
		listed[d.ID] = d
		out.devices, wired, places = append(out.devices, d), append(wired, links), append(places, i)
	}
	for i := range w.Len() {
		if d := k.unchanged(w.at(i)); d != nil && listed[d.ID] == nil {
			keep(i, d, nil)
			continue
		}
		d, wire, remark, err := p.decode(backend, w, i)
		if err == nil && listed[d.ID] != nil {
			if err = errTwice; !left.full() { // the first is looked for among all
				err = fmt.Errorf("its ID is also that of device %d of the report, which counts; IDs must be unique", places[slices.Index(out.devices, listed[d.ID])]+1)
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
		keep(i, d, wire.GetLinks())
	}
	out.devices, wired = dropNested(out.devices, wired, listed, &left)
	for i, d := range out.devices {
		before := k.before(d.ID)
		if d == before {
			continue
		}
		var remark string
		if d.Links, remark = links(d, wired[i], func(id string) *Device { return listed[id] }); remark != "" {
			remarks.add(d.ID, "%s", remark)
		}
		if before != nil {
			if d.shareWith(before); equalDevice(before, d) {
				out.devices[i] = before
			}
		}
	}
	out.defects = len(left.kept) > 0 || len(remarks.kept) > 0
	out.problems = append(left.list("devices are left out"), own(w.problems)...)
	out.problems = append(out.problems, remarks.list("devices have defects")...)
	return out
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
func dropNested(devices []*Device, wired [][]*backendv1.Link, listed map[string]*Device, left *problems) ([]*Device, [][]*backendv1.Link) {
	var bad []*Device
	for _, d := range devices {
		level := 0
		for up := d; up != nil && level <= maxParents; level++ {
			up = listed[up.Parent]
		}
		if level > maxParents {
			bad = append(bad, d)
			left.add(d.ID, "the device is left out: its parents go round in a circle or further up than %d levels", maxParents)
		}
	}
	if len(bad) == 0 {
		return devices, wired
	}
	for _, d := range bad {
		delete(listed, d.ID)
	}
	kept, keptLinks := devices[:0], wired[:0]
	for i, d := range devices {
		if listed[d.ID] != nil {
			kept, keptLinks = append(kept, d), append(keptLinks, wired[i])
		}
	}
	return kept, keptLinks
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
