package inventory

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/accelmux/accelmux/core/text"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Report is an inventory as a backend sent it. It is immutable.
type Report struct {
	// Inventory has everything except the devices.
	*backendv1.Inventory
	// Devices are encoded messages of the type backendv1.Device. A backend reports all devices
	// whenever one changes; those that equal devices of the previous report need not be decoded
	// and checked again.
	Devices []string
	// memory is what the guard charged for each device, in bytes.
	memory []int
}

// Guard checks the parts of a report before they are decoded, and bounds the memory of the whole
// report. An error means that the report must be refused.
type Guard interface {
	// Check returns the content to use in place of the part, and its estimated memory in bytes,
	// which Check has already charged.
	Check(part []byte, of protoreflect.MessageDescriptor) (content []byte, memory int, err error)
	// Charge charges the memory, in bytes, of a part that was checked with an earlier report.
	Charge(memory int) error
}

// SplitReport returns the report of an encoded backendv1.Inventory. before is the previous report, or
// nil. The guard checks each device that is not in before, and the rest of the message. Both reports
// share the memory of equal devices.
func SplitReport(encoded []byte, before *Report, guard Guard) (*Report, error) {
	r, known := &Report{Inventory: &backendv1.Inventory{}}, knownDevices{}
	if before != nil {
		known.Report = before
		r.Devices, r.memory = make([]string, 0, len(before.Devices)), make([]int, 0, len(before.Devices))
	}
	var rest []byte
	for len(encoded) > 0 {
		number, kind, start := protowire.ConsumeTag(encoded)
		if start < 0 {
			return nil, protowire.ParseError(start)
		}
		size := protowire.ConsumeFieldValue(number, kind, encoded[start:])
		if size < 0 {
			return nil, protowire.ParseError(size)
		}
		field := encoded[:start+size]
		encoded = encoded[start+size:]
		if number != devicesField || kind != protowire.BytesType {
			rest = append(rest, field...)
			continue
		}
		content, _ := protowire.ConsumeBytes(field[start:])
		device, memory, ok := known.find(content, len(r.Devices))
		var err error
		if ok {
			err = guard.Charge(memory)
		} else {
			content, memory, err = guard.Check(content, (*backendv1.Device)(nil).ProtoReflect().Descriptor())
			device = string(content)
		}
		if err != nil {
			return nil, err
		}
		r.Devices, r.memory = append(r.Devices, device), append(r.memory, memory)
	}
	rest, _, err := guard.Check(rest, r.ProtoReflect().Descriptor())
	if err != nil {
		return nil, err
	}
	return r, proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(rest, r.Inventory)
}

// EncodeReport returns the report of a decoded inventory, without checks by a guard. The error is
// that of protobuf's encoding.
func EncodeReport(w *backendv1.Inventory) (*Report, error) {
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(w)
	if err != nil {
		return nil, err
	}
	return SplitReport(encoded, nil, unguarded{})
}

// unguarded accepts every part.
type unguarded struct{}

func (unguarded) Check(part []byte, _ protoreflect.MessageDescriptor) ([]byte, int, error) {
	return part, 0, nil
}
func (unguarded) Charge(int) error { return nil }

// devicesField is the number of Inventory.devices.
var devicesField = (*backendv1.Inventory)(nil).ProtoReflect().Descriptor().Fields().ByName("devices").Number()

// knownDevices finds encoded devices in a report, which may be nil.
type knownDevices struct {
	*Report
	byText map[string]int // index by content; made for the first device that has moved
}

// find returns the device with this content and its memory in bytes, if there is one. place is the
// index to try first.
func (k *knownDevices) find(content []byte, place int) (device string, memory int, ok bool) {
	if k.Report == nil {
		return "", 0, false
	}
	if place >= len(k.Devices) || k.Devices[place] != string(content) {
		if k.byText == nil {
			k.byText = make(map[string]int, len(k.Devices))
			for i, d := range k.Devices {
				k.byText[d] = i
			}
		}
		if place, ok = k.byText[string(content)]; !ok {
			return "", 0, false
		}
	}
	return k.Devices[place], k.memory[place], true
}

// checkedReport is the valid part of a report.
type checkedReport struct {
	devices  []*Device
	sets     []CounterSet
	labels   []NodeLabel
	problems []Problem
	// refusedByPolicy counts devices that are valid but need what the node's configuration
	// does not allow.
	refusedByPolicy int
	// stored has the results that can be used again, by the encoded device.
	stored map[string]*checkedDevice
}

// checkedDevice is the result of the checks of one device without regard to others.
type checkedDevice struct {
	id  string
	err error
	// device is nil if err is set. Its Links are the valid ones of links by the latest report.
	device *Device
	// links are the reported links, up to the number that a device may have; allLinks is the
	// number that was reported.
	links    []reportedLink
	allLinks int
	remark   string
	// optional has what the lists of the configuration would need for optional edits that they
	// do not allow.
	optional shortage
	// storable reports whether the same content gives the same result until the parser changes.
	// A device with a defect, or whose device nodes were not all found, is checked again with
	// each report, as the host's files may have changed.
	storable bool
}

// reportedLink is a link before it is checked.
type reportedLink struct {
	peer            string
	kind            backendv1.LinkKind
	count, distance uint32
}

// entry is a device of a report that passed the checks so far.
type entry struct {
	*checkedDevice
	// number is the device's position in the report, from 1.
	number int
	// kept devices are not in the report; see [unread].
	kept bool
}

// reportCheck is the check of one report.
type reportCheck struct {
	out     checkedReport
	left    problems // devices that are left out
	remarks problems // defects of devices that stay
	short   shortages
	// reported has the IDs in the report, also of devices that are left out.
	reported map[string]bool
	entries  []entry
	listed   map[string]entry // by ID
	names    map[string]entry // by Device.Name
	// whole are the counter sets, rest is what existing devices leave of them.
	whole, rest budget
}

// checkReport checks a whole report: each device, then the relations between them. stored is the
// checkedReport.stored of an earlier report to the same parser, or nil. before is what was known until now: a
// device that equals the one with its ID there is returned as the same pointer, so that callers may compare
// pointers; and devices that the backend could not look at stay, from now on with that reason.
func checkReport(p *parser, backend string, w *Report, before *Backend, stored map[string]*checkedDevice, now time.Time) checkedReport {
	n := len(w.Devices)
	c := &reportCheck{
		out: checkedReport{stored: make(map[string]*checkedDevice, n)}, reported: make(map[string]bool, n),
		entries: make([]entry, 0, n), listed: make(map[string]entry, n), names: make(map[string]entry, n),
	}
	c.out.sets = counterSets(w.GetCounterSets(), &c.remarks)
	c.out.labels = nodeLabels(w.GetNodeLabels(), &c.remarks)
	c.whole, c.rest = newBudget(c.out.sets), newBudget(c.out.sets)
	known := sync.OnceValue(func() map[string]*Device { return byID(before.Devices) })
	isListed := func(id string) bool { return known()[id] != nil }
	for i, encoded := range w.Devices {
		checked, ok := stored[encoded]
		if !ok {
			checked = p.checkListed(backend, encoded, linkLimit(n), isListed)
		}
		if checked.storable {
			c.out.stored[encoded] = checked
		}
		c.add(entry{checkedDevice: checked, number: i + 1})
	}
	c.keep(parseUnread(w, &c.remarks), before, now)
	c.entries = dropNested(c.entries, c.listed, &c.left)
	c.link(n, before.Devices)
	c.out.problems = slices.Concat(c.short.problems(), c.left.list("devices are left out"), reported(w.GetProblems()), c.remarks.list("devices have defects"))
	return c.out
}

// add adds a device of the report, or leaves it out.
func (c *reportCheck) add(e entry) {
	c.reported[e.id] = true
	err := e.err
	if err == nil {
		if first, twice := c.names[e.device.Name()]; twice {
			err = fmt.Errorf("its ID is also that of device %d of the report, %s, which stays; IDs must differ in a letter or digit, whatever its case",
				first.number, first.device.ID)
		} else {
			err = c.rest.consume(e.device, c.whole)
		}
	}
	if err != nil {
		var policy *policyError
		if errors.As(err, &policy) {
			c.out.refusedByPolicy++
			if !policy.missing.Empty() {
				c.short.left, c.short.missing = append(c.short.left, e.id), c.short.missing.join(policy.missing)
				return
			}
		}
		c.left.add(printableID(e.id), "device %d of the report is left out: %s", e.number, err)
		return
	}
	if e.remark != "" {
		c.remarks.add(e.id, "%s", e.remark)
	}
	if !e.optional.Empty() {
		c.short.reduced, c.short.missing = append(c.short.reduced, e.id), c.short.missing.join(e.optional)
	}
	c.enter(e)
}

// enter adds a device that passed the checks.
func (c *reportCheck) enter(e entry) {
	c.listed[e.id], c.names[e.device.Name()] = e, e
	c.entries = append(c.entries, e)
}

// link sets the devices, with the links that are valid between them. n is the number of devices of the report, before are
// those of the previous one.
func (c *reportCheck) link(n int, before []*Device) {
	known := sync.OnceValue(func() map[string]*Device { return byID(before) })
	c.out.devices = make([]*Device, len(c.entries))
	for i, e := range c.entries {
		d, remark := e.linked(n, c.listed)
		if remark != "" {
			c.remarks.add(d.ID, "%s", remark)
		}
		if i >= len(before) || before[i] != d {
			if old := known()[d.ID]; old != nil && equalDevice(old, d) {
				d = old
			}
		}
		e.device, c.out.devices[i] = d, d
	}
}

// linked returns the device with those links that are valid in this report. It is a copy if the valid
// links have changed.
func (e entry) linked(devices int, listed map[string]entry) (d *Device, remark string) {
	if len(e.links)+len(e.device.Links) == 0 {
		return e.device, ""
	}
	var valid []Link
	if e.kept {
		valid = keptLinks(e.device, listed)
	} else {
		valid, remark = links(e.id, devices, e.links, e.allLinks, listed)
	}
	if slices.Equal(valid, e.device.Links) {
		return e.device, remark
	}
	changed := *e.device
	changed.Links = valid
	return &changed, remark
}

// dropNested removes devices whose parents form a cycle or more than maxParents levels, from the
// entries and from listed, which has the devices by ID. Callers can then follow parents without a
// check. left gets the problems.
func dropNested(entries []entry, listed map[string]entry, left *problems) (stay []entry) {
	var nested []string
	for _, e := range entries {
		level := 0
		for parent := e.device.Parent; parent != "" && level < maxParents; level++ {
			up, ok := listed[parent]
			if !ok {
				break
			}
			parent = up.device.Parent
		}
		if level == maxParents {
			nested = append(nested, e.id)
			left.add(e.id, "the device is left out: its parents form a cycle or more than %d levels", maxParents)
		}
	}
	for _, id := range nested {
		delete(listed, id)
	}
	return slices.DeleteFunc(entries, func(e entry) bool { _, ok := listed[e.id]; return !ok })
}

// problems is a bounded list of problems, with the number of further ones.
type problems struct {
	first []Problem
	more  int
}

func (p *problems) add(device, format string, args ...any) {
	if len(p.first) == MaxProblems {
		p.more++
		return
	}
	p.first = append(p.first, Problem{Device: device, Message: text.Shorten(fmt.Sprintf(format, args...), maxMessage)})
}

func (p *problems) list(what string) []Problem {
	if p.more == 0 {
		return p.first
	}
	return append(p.first, Problem{Message: fmt.Sprintf("and %d more %s", p.more, what)})
}

// reported returns the problems that the backend reports.
func reported(wire []string) []Problem {
	var p problems
	for _, message := range wire {
		if message != "" {
			p.add("", "%s", message)
		}
	}
	return p.list("problems of the backend's")
}

// printableID returns a valid ID unchanged, and an invalid one quoted and shortened.
func printableID(id string) string {
	if checkID("", id) == nil {
		return id
	}
	return quote(id)
}
