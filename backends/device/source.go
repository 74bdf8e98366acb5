package device

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/device/description"
	"github.com/accelmux/accelmux/backends/device/expression"
	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sysfs"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// source is a kind as the engine uses it: a unit is one device of that kind.
type source struct {
	kind   *description.Compiled
	cfg    *config
	finder match.Finder
	infos  *infoFiles
	// infoDir is [infoDir].
	infoDir string
	moved   *movedFile
	// watched: changes in /dev are noticed.
	watched bool
	// open has the files of health, which stay open between scans: links change with events only.
	open *sysfs.Open
	// interfaces are those that the last scan saw.
	interfaces *interfaces
}

// reading is what was read of a device.
type reading struct {
	kind *description.Compiled
	// objects are those of the device; the first gives it its ID and attributes.
	objects []*expression.Scope
	// polled are those of them that are read between scans, for health.
	polled     []*expression.Scope
	attributes map[string]*sdk.Attribute
	capacities map[string]int64
	// problems are those of attributes and capacities, for users.
	problems []string
	// health is the gravest fault that the files show; nil if there is none. values are those
	// of files that are judged by how they change.
	health *sdk.Health
	values []watched
	// numa is that of a device that is not on PCI; -1 for none.
	numa int
	// links are those to the other devices of the kind.
	links []*sdk.Link
}

// Name implements [engine.Driver].
func (s source) Name() string { return s.kind.Name }

// Scan implements [engine.Driver].
func (s source) Scan(known []engine.Unit) engine.Scan {
	s.open.Close()
	s.interfaces.note(s)
	found, wrong := s.finder.Find(&s.kind.Match.Selector)
	var scan engine.Scan
	if !s.hasEvents() {
		scan.Next = s.cfg.scans()
	}
	for _, p := range wrong {
		scan.Problems = append(scan.Problems, engine.Problem{Device: p.Name, Lost: true, Err: s.wrong(p.Err)})
	}
	sys := match.Root(s.cfg.host.Sysfs)
	lose := func(o *match.Object, err error) {
		name := path.Base(o.Hardware().Dir)
		if name != o.Name {
			name += " (" + o.Name + ")"
		}
		scan.Problems = append(scan.Problems, engine.Problem{Device: name, Lost: true, Err: s.wrong(err)})
	}
	groups, order := map[string][]*expression.Scope{}, []string{}
	slices.SortStableFunc(found, (*match.Object).Compare)
	for _, o := range found {
		scope := &expression.Scope{Kind: s.kind.Name, Object: o.Remembering(s.moved.Moved), Sys: sys}
		key, err := s.group(scope)
		switch {
		case err != nil:
			lose(o, err)
		case key != "":
			if groups[key] == nil {
				order = append(order, key)
			}
			groups[key] = append(groups[key], scope)
		}
	}
	firsts := make([]*match.Object, len(order))
	for i, key := range order {
		firsts[i] = groups[key][0].Object
	}
	ids := s.identities(firsts)
	for _, key := range order {
		unit, err := s.unit(groups[key], ids)
		switch {
		case errors.Is(err, errGone):
		case err != nil:
			lose(groups[key][0].Object, err)
		default:
			scan.Units = append(scan.Units, unit)
		}
	}
	for _, text := range ids.problems(scan.Units) {
		scan.Problems = append(scan.Problems, engine.Problem{Err: s.wrong(errors.New(text))})
	}
	scan.Units, scan.Problems = unique(scan.Units, scan.Problems)
	link(scan.Units)
	scan.Problems = append(scan.Problems, s.writeInfos(scan.Units)...)
	s.moved.store(s.cfg.host.Sysfs)
	scan.Problems = append(scan.Problems, s.misnamed()...)
	scan.Problems = append(scan.Problems, s.hidden()...)
	unserved := s.unserved(scan.Units, known)
	if s.lacksClass() { // the driver makes it, so an earlier process may have listed devices
		for i, p := range unserved {
			unserved[i] = engine.Problem{Lost: true, Err: fmt.Errorf("%s: %w", p.Device, p.Err)}
		}
	}
	scan.Problems = append(scan.Problems, unserved...)
	scan.Absent = s.absent(scan.Units, known)
	scan.Unpolled = !s.readsNetwork() && !slices.ContainsFunc(scan.Units, func(u engine.Unit) bool { return len(readingIn(u.Devices[0]).polled) > 0 })
	return scan
}

// maxLinked is up to how many devices of a kind have links: of more, each pair would be too much.
const maxLinked = 64

// link adds the links between devices on PCI, so that a container gets those that are close.
func link(units []engine.Unit) {
	if len(units) > maxLinked {
		return
	}
	for i := range units {
		d := &units[i].Devices[0]
		r := readingIn(*d)
		for j, peer := range units {
			if from := units[i].PCI; i != j && from != nil && peer.PCI != nil {
				r.links = append(r.links, &sdk.Link{PeerId: peer.ID, Kind: from.LinkTo(*peer.PCI)})
			}
		}
		d.Vendor = r
	}
}

// Poll implements [engine.Poller]: it reads the files of health again. The kernel sends no uevent when most
// of them change, such as the operstate of an interface: it reports that by rtnetlink, to sockets in the
// network namespace of the interface alone, where the agent's pod is not. Without ok an interface came
// or went, or a file can no longer be read. Ten devices with two files each take 0.1 ms of a processor's
// time, 4,096 take 30 to 70 ms (BenchmarkPoll); the pause after a poll bounds what slow files take.
func (s source) Poll(last engine.Scan) (now engine.Scan, ok bool) {
	if s.interfaces.changed(s) {
		return now, false
	}
	now = last
	now.Units = slices.Clone(last.Units)
	var values []watched
	for i := range now.Units {
		d := now.Units[i].Devices[0]
		before := readingIn(d)
		r := before
		r.health, r.values = nil, values[:0]
		for _, o := range r.polled {
			s.faults(o, &r)
		}
		if isUnknown(r.health) && !isUnknown(before.health) {
			return now, false
		}
		if values = r.values; r.health == nil && before.health == nil && slices.Equal(values, before.values) {
			continue // most of the time: what is not allocated is not collected
		}
		r.values = slices.Clone(values)
		d.Vendor = r
		now.Units[i].Devices = []engine.Device{d}
	}
	return now, true
}

func isUnknown(h *sdk.Health) bool { return h.GetState() == backendv1.HealthState_HEALTH_STATE_UNKNOWN }

// inNetwork are the classes whose members are in a network namespace: there are their events, and the
// agent may be in another one (ns_type of struct class in the kernel).
var inNetwork = []string{"net", "infiniband", "ieee80211"}

// hasEvents reports whether there is an event when a device of the kind comes or goes. What is in
// /sys, but in no class and on no bus, has none.
func (s source) hasEvents() bool {
	if s.readsNetwork() {
		return false
	}
	return !slices.ContainsFunc(s.kind.Match.Paths, func(pattern string) bool {
		parts := strings.Split(pattern, "/") // "", "sys", "class", "net"
		switch {
		case parts[1] == "dev":
			return !s.watched
		case len(parts) > 3 && (parts[2] == "class" || parts[2] == "bus"):
			return slices.Contains(inNetwork, parts[3])
		}
		return true
	})
}

// wrong adds the kind to an error.
func (s source) wrong(err error) error { return fmt.Errorf("kind %s: %w", s.kind.Name, err) }

// group returns the same key for objects that are one device; empty for an object that does not
// match.
func (s source) group(scope *expression.Scope) (key string, err error) {
	if s.kind.Where != nil {
		is, err := s.kind.Where.True(scope)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !is {
			return "", nil
		}
		if err != nil {
			return "", err
		}
	}
	if s.kind.MergeBy == nil {
		return "object " + scope.Object.Dir, nil
	}
	key, err = s.kind.MergeBy.Text(scope)
	if err == nil && key == "" {
		err = errors.New("its mergeBy is empty: give the kind one that is not")
	}
	return "group " + key, err
}

// errGone: the hardware went while it was read.
var errGone = errors.New("it is gone")

// unit reads a device.
func (s source) unit(objects []*expression.Scope, ids identities) (engine.Unit, error) {
	first := objects[0]
	id, counted, err := ids.of(first)
	if err != nil {
		return engine.Unit{}, err
	}
	hardware := first.Object.Hardware()
	unit := engine.Unit{ID: id, Board: id, Dir: hardware.Dir}
	d := engine.Device{ID: id, Name: id, Content: "present"}
	switch {
	case len(s.kind.NetDevices) > 0:
		// It is where its interface is: one in a container is not listed, without a fault, and the
		// core knows who has it.
		unit.Dir, unit.Hardware = first.Object.Dir, hardware.Dir
	case hardware.PCI != nil:
		at, err := pci.ReadDevice(s.cfg.host.Sysfs, *hardware.PCI)
		if errors.Is(err, fs.ErrNotExist) {
			return unit, errGone
		}
		if err != nil {
			return unit, err
		}
		unit.PCI, unit.Board, d.ResetGroup = &at, at.Address.String(), at.Address.String()
	}
	if unit.PCI == nil && hardware.Dir == first.Object.Dir && slices.Contains(inNetwork, s.kind.Match.Class) {
		unit.Hardware = path.Dir(hardware.Dir) // it may have been moved, too
	}
	for _, o := range objects {
		unit.Objects = append(unit.Objects, o.Object.Dir)
		if at := o.Object.Hardware().PCI; at != nil && !slices.Contains(d.Functions, *at) {
			d.Functions = append(d.Functions, *at)
		}
	}
	r := s.read(objects)
	if counted {
		r.attributes[description.CountedAttribute] = sdk.Bool(true)
	}
	if unit.PCI == nil {
		r.numa = first.Object.NUMANode()
	}
	d.Edits, d.EditsErr = s.edits(objects)
	d.Vendor = r
	unit.Devices = []engine.Device{d}
	return unit, nil
}

// read evaluates attributes, capacities and health.
func (s source) read(objects []*expression.Scope) reading {
	first := objects[0]
	r := reading{
		kind: s.kind, objects: objects, numa: -1,
		attributes: map[string]*sdk.Attribute{description.KindAttribute: sdk.String(s.kind.Name)}, capacities: map[string]int64{},
	}
	wrong := func(what, name string, err error) {
		if !errors.Is(err, fs.ErrNotExist) { // not all drivers have all files
			r.problems = append(r.problems, fmt.Sprintf("the %s %s is left out: %v", what, name, err))
		}
	}
	for name, p := range s.kind.Attributes {
		value, err := p.Eval(first)
		if err != nil {
			wrong("attribute", name, err)
			continue
		}
		if a := attribute(value); a != nil {
			r.attributes[name] = a
		}
	}
	for name, p := range s.kind.Capacities {
		value, err := p.Eval(first)
		n, _ := value.(int64)
		if err == nil && n < 0 {
			err = fmt.Errorf("%d is negative", n)
		}
		if err != nil {
			wrong("capacity", name, err)
			continue
		}
		r.capacities[name] = n
	}
	slices.Sort(r.problems)
	for _, o := range objects {
		polled := &expression.Scope{Kind: o.Kind, Object: o.Object.Remembering(nil).Opening(s.open), Sys: o.Sys.Opening(s.open)}
		if s.polls(o.Object) {
			r.polled = append(r.polled, polled)
		}
		s.faults(polled, &r)
	}
	return r
}

// faults adds what the files of an object show.
func (s source) faults(scope *expression.Scope, r *reading) {
	r.health = sdk.Graver(r.health, s.kernels(scope.Object, r.objects))
	for i := range s.kind.Health {
		h := &s.kind.Health[i]
		if h.Absent == "driver" && s.binds() {
			continue // Prepare binds it to one
		}
		health, value := judge(h, scope)
		r.health = sdk.Graver(r.health, health)
		if value != nil {
			value.index, value.dir = i, scope.Object.Dir
			r.values = append(r.values, *value)
		}
	}
}
