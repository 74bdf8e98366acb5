package device

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/device/description"
	"github.com/accelmux/accelmux/backends/device/expression"
	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// source is a kind as the engine uses it: a unit is one device of that kind.
type source struct {
	kind   *description.Compiled
	cfg    *config
	finder match.Finder
	// watched: changes in /dev are noticed.
	watched bool
}

// reading is what was read of a device.
type reading struct {
	kind *description.Compiled
	// objects are those of the device; the first gives it its ID and attributes.
	objects    []*expression.Scope
	attributes map[string]*sdk.Attribute
	capacities map[string]int64
	// problems are those of attributes and capacities, for users.
	problems []string
	// health is the gravest fault that the files show; nil if there is none. values are those
	// of files that are judged by how they change.
	health *sdk.Health
	values []watched
	// nodes are its device nodes by which processes can be found that use it.
	nodes []string
	// numa is that of a device that is not on PCI; -1 for none.
	numa int
}

// Name implements [engine.Driver].
func (s source) Name() string { return s.kind.Name }

// Scan implements [engine.Driver].
func (s source) Scan([]engine.Unit) engine.Scan {
	found, wrong := s.finder.Find(&s.kind.Match.Selector)
	var scan engine.Scan
	for _, p := range wrong {
		scan.Problems = append(scan.Problems, engine.Problem{Device: p.Name, Lost: p.Name != "", Err: s.wrong(p.Err)})
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
	slices.SortStableFunc(found, byAddress)
	for _, o := range found {
		scope := &expression.Scope{Kind: s.kind.Name, Object: o, Sys: sys}
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
	for _, key := range order {
		unit, err := s.unit(groups[key])
		switch {
		case errors.Is(err, errGone):
		case err != nil:
			lose(groups[key][0].Object, err)
		default:
			scan.Units = append(scan.Units, unit)
		}
	}
	scan.Problems = append(scan.Problems, s.tellApart(scan.Units)...)
	scan.Units, scan.Problems = unique(scan.Units, scan.Problems)
	return scan
}

// Poll implements [engine.Poller]: it reads the files of health again. Without ok the devices may
// come and go without an event, or something cannot be read.
func (s source) Poll(last engine.Scan) (now engine.Scan, ok bool) {
	if !s.hasEvents() {
		return now, false
	}
	now = last
	now.Units = slices.Clone(last.Units)
	for i := range now.Units {
		d := now.Units[i].Devices[0]
		r := readingIn(d)
		r.health, r.values = nil, nil
		for _, o := range r.objects {
			s.faults(o, &r)
		}
		if r.health.GetState() == backendv1.HealthState_HEALTH_STATE_UNKNOWN {
			return now, false
		}
		d.Vendor = r
		now.Units[i].Devices = []engine.Device{d}
	}
	return now, true
}

// inNetwork are the classes whose members are in a network namespace: there are their events, and the
// agent may be in another one (ns_type of struct class in the kernel).
var inNetwork = []string{"net", "infiniband", "ieee80211"}

// hasEvents reports whether there is an event when a device of the kind comes or goes. What is in
// /sys, but in no class and on no bus, has none.
func (s source) hasEvents() bool {
	if slices.Contains(inNetwork, s.kind.Match.Class) {
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

// byAddress orders objects by PCI address, those without one first; otherwise they stay ordered
// by name.
func byAddress(a, b *match.Object) int {
	at := func(o *match.Object) pci.Address {
		if f, err := o.Function(); err == nil {
			return f.Address
		}
		return pci.Address{}
	}
	return at(a).Compare(at(b))
}

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
func (s source) unit(objects []*expression.Scope) (engine.Unit, error) {
	first := objects[0]
	id, err := s.id(first, false)
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
		unit.Dir = first.Object.Dir
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
	r := s.read(objects)
	if unit.PCI == nil {
		r.numa = first.Object.NUMANode()
	}
	d.Edits, r.nodes, d.EditsErr = s.edits(objects)
	d.Vendor = r
	unit.Devices = []engine.Device{d}
	return unit, nil
}

// maxID is how many characters an ID may have.
const maxID = 63

// id returns the ID of a device. byPort is that of [source.defaultID].
func (s source) id(scope *expression.Scope, byPort bool) (string, error) {
	read := func(scope *expression.Scope) (string, error) { return s.defaultID(scope, byPort) }
	if s.kind.ID != nil {
		read = s.kind.ID.Text
	}
	text, err := read(scope)
	id := strings.TrimLeft(strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("_.:-", r)) {
			return r
		}
		return '-'
	}, text), "_.:-")
	for strings.Contains(id, "::") { // which marks replicas
		id = strings.ReplaceAll(id, "::", ":-:")
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("its ID cannot be read: %w", err)
	case id == "":
		return "", fmt.Errorf("its ID would be empty: give the kind another id")
	case len(id) > maxID:
		return "", fmt.Errorf("its ID %s has more than %d characters: give the kind another id", id, maxID)
	}
	return id, nil
}

// defaultID returns the ID of a device whose kind does not say: by the USB device's vendor,
// product, and serial number or port; by the PCI address; or by the object's name. byPort: the serial
// number is not used.
func (s source) defaultID(scope *expression.Scope, byPort bool) (string, error) {
	o, hardware := scope.Object, scope.Object.Hardware()
	switch {
	case hardware.USB:
		p, err := o.Port()
		if err != nil {
			return "", err
		}
		vendor, err := p.Text("idVendor")
		if err != nil {
			return "", err
		}
		product, err := p.Text("idProduct")
		if err != nil {
			return "", err
		}
		which, err := p.Text("serial")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if which == "" || byPort {
			which = "port-" + p.Name
		}
		id := strings.Join([]string{s.kind.Name, vendor, product, which}, "-")
		if p.Interface != "" {
			id += "-if" + p.Interface
		}
		further, err := place(o)
		return id + further, err
	case hardware.PCI != nil:
		further, err := place(o)
		return s.kind.Name + "-" + hardware.PCI.String() + further, err
	case o.Name == s.kind.Name:
		return o.Name, nil
	}
	return s.kind.Name + "-" + o.Name, nil
}

// place returns what tells a node of an interface or a function from its others, where the kernel counts
// these: nodes of cameras and of serial adapters with several ports. It is empty for the first.
func place(o *match.Object) (string, error) {
	file, ok := map[string]string{"tty": "device/port_number", "video4linux": "index"}[path.Base(path.Dir(o.Dir))]
	if !ok {
		return "", nil
	}
	switch n, err := o.Text(file); {
	case errors.Is(err, fs.ErrNotExist), err == nil && n == "0":
		return "", nil
	default:
		return "-" + n, err
	}
}

// tellApart gives USB devices that have the same serial number IDs by their ports, and returns a
// problem for each such number. None of them keeps the other ID: after a restart it would be unknown
// which of them had it.
func (s source) tellApart(units []engine.Unit) (problems []engine.Problem) {
	if s.kind.ID != nil {
		return nil
	}
	same, all := map[string][]*engine.Unit{}, []string(nil)
	for i := range units {
		if first(units[i]).Object.Hardware().USB {
			same[units[i].ID] = append(same[units[i].ID], &units[i])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(same)) {
		if len(same[id]) == 1 {
			continue
		}
		var ports []string
		for _, u := range same[id] {
			other, err := s.id(first(*u), true)
			if err != nil {
				continue // it is left out with its twins
			}
			u.ID, u.Board, u.Devices[0].ID, u.Devices[0].Name = other, other, other, other
			ports = append(ports, path.Base(u.Dir))
		}
		wrong := fmt.Sprintf("the USB devices %s have the same vendor, product and serial number, "+
			"and IDs by their ports: plugged in elsewhere they are other devices", strings.Join(ports, ", "))
		if !slices.Contains(all, wrong) { // each interface may have twins
			all = append(all, wrong)
			problems = append(problems, engine.Problem{Err: s.wrong(errors.New(wrong))})
		}
	}
	return problems
}

// first returns the object from which a unit has its ID.
func first(u engine.Unit) *expression.Scope { return readingIn(u.Devices[0]).objects[0] }

// unique leaves out devices whose IDs, or whose names under DRA, are the same: which of them a
// container gets would depend on their order.
func unique(units []engine.Unit, problems []engine.Problem) ([]engine.Unit, []engine.Problem) {
	name := func(u engine.Unit) string {
		return strings.NewReplacer("_", "-", ".", "-", ":", "-").Replace(strings.ToLower(u.ID))
	}
	count := map[string]int{}
	for _, u := range units {
		count[name(u)]++
	}
	var kept []engine.Unit
	for _, u := range units {
		n := count[name(u)]
		if n == 1 {
			kept = append(kept, u)
			continue
		}
		problems = append(problems, engine.Problem{Device: path.Base(u.Dir), Lost: true, Err: fmt.Errorf(
			"%d devices have its ID %s: give the kind an id that tells them apart, such as one with {usb.port} or {name}", n, u.ID)})
	}
	return kept, problems
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
		s.faults(o, &r)
	}
	return r
}

// faults adds what the files of an object show.
func (s source) faults(scope *expression.Scope, r *reading) {
	for i := range s.kind.Health {
		h := &s.kind.Health[i]
		health, value := judge(h, scope)
		r.health = sdk.Graver(r.health, health)
		if value != nil {
			value.index = i
			value.key = fmt.Sprint(i, " ", scope.Object.Dir)
			r.values = append(r.values, *value)
		}
	}
}
