package device

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/device/expression"
	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/backends/engine"
)

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
		if !slices.ContainsFunc(same[id], func(u *engine.Unit) bool { return u.Dir != same[id][0].Dir }) {
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
