package device

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/device/description"
	"github.com/accelmux/accelmux/backends/device/expression"
	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/backends/engine"
)

const (
	// maxID is how many characters an ID may have.
	maxID = 63
	// hashed is how many hexadecimal digits of a hash end an ID that would have more.
	hashed = 8
)

// identities give the devices of one scan their IDs.
type identities struct {
	kind *description.Compiled
	// twins are the USB devices whose serial number identifies none of them, by their directories: the
	// value is the same for those with the same vendor, product and serial number.
	twins map[string]string
	// own counts the devices that are on neither USB nor PCI, by what else identifies them.
	own map[string]int
}

// identities reads what the IDs of devices depend on beside themselves. objects are those from which they
// have their IDs.
func (s source) identities(objects []*match.Object) identities {
	ids := identities{kind: s.kind, own: map[string]int{}}
	if s.kind.ID != nil {
		return ids
	}
	ports := map[string]*match.Object{}
	for _, o := range objects {
		if p, err := o.Port(); err == nil {
			ports[p.Dir] = &p.Object
		} else if o.Hardware().PCI == nil {
			further, _ := ids.place(o)
			ids.own[o.Own()+further]++
		}
	}
	if len(ports) == 0 {
		return ids
	}
	// All devices count, also those that the kind does not match or that are without driver now: else the
	// other twin's ID would change with them. What cannot be read is no twin.
	all, _ := s.finder.Find(&match.Selector{USB: &match.USB{}})
	for _, o := range all {
		ports[o.Dir] = o
	}
	same := map[string][]string{}
	for dir, o := range ports {
		var key []string
		for _, file := range []string{"idVendor", "idProduct", "serial"} {
			text, _ := o.Text(file)
			key = append(key, text)
		}
		if key[2] != "" {
			all := strconv.Quote(strings.Join(key, "\x00"))
			same[all] = append(same[all], dir)
		}
	}
	ids.twins = map[string]string{}
	for key, dirs := range same {
		for _, dir := range dirs {
			if len(dirs) > 1 {
				ids.twins[dir] = key
			}
		}
	}
	return ids
}

// of returns the ID of a device by its first object. counted: it has a number that the kernel counts in the
// order in which it finds devices, so that another device may have it after a boot.
func (ids identities) of(first *expression.Scope) (id string, counted bool, err error) {
	var text string
	if ids.kind.ID == nil {
		text, counted, err = ids.byDefault(first.Object)
	} else if text, err = ids.kind.ID.Text(first); err == nil {
		other, wrong := ids.kind.ID.Text(first.Renumbered())
		counted = wrong == nil && other != text
	}
	if err != nil {
		return "", false, fmt.Errorf("its ID cannot be read: %w", err)
	}
	id = strings.TrimLeft(strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("_.:-", r)) {
			return r
		}
		return '-'
	}, text), "_.:-")
	for strings.Contains(id, "::") { // which marks replicas
		id = strings.ReplaceAll(id, "::", ":-:")
	}
	if len(id) > maxID {
		sum := sha256.Sum256([]byte(text))
		id = strings.TrimRight(id[:maxID-hashed-1], "_.:-") + "-" + hex.EncodeToString(sum[:])[:hashed]
	}
	if id == "" {
		return "", false, errors.New("its ID would be empty: give the kind another id")
	}
	return id, counted, nil
}

// byDefault returns the ID of a device whose kind does not say: by the USB device's vendor, product, and serial
// number or port; by the PCI address; or by what else identifies it.
func (ids identities) byDefault(o *match.Object) (id string, counted bool, err error) {
	further, err := ids.place(o)
	if err != nil {
		return "", false, err
	}
	hardware := o.Hardware()
	switch {
	case hardware.USB:
		id, counted, err = ids.usb(o)
	case hardware.PCI != nil:
		id = ids.kind.Name + "-" + hardware.PCI.String()
	default:
		id, counted, err = ids.other(o, further)
	}
	return id + further, counted, err
}

// usb returns the ID of a USB device, or of an interface.
func (ids identities) usb(o *match.Object) (id string, counted bool, err error) {
	p, err := o.Port()
	if err != nil {
		return "", false, err
	}
	parts := []string{ids.kind.Name}
	for _, file := range []string{"idVendor", "idProduct"} {
		text, err := p.Text(file)
		if err != nil {
			return "", false, err
		}
		parts = append(parts, text)
	}
	which, err := p.Text("serial")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", false, err
	}
	if which == "" || ids.twins[p.Dir] != "" || p.IsRoot() { // whose serial number is the controller's name
		at, byCount, err := p.Location()
		if err != nil {
			return "", false, err
		}
		which, counted = "port-"+at, byCount
	}
	id = strings.Join(append(parts, which), "-")
	if p.Interface != "" {
		id += "-if" + p.Interface
	}
	return id, counted, nil
}

// other returns the ID of a device that is on neither USB nor PCI: by the name of what it is on. Several on
// one, and those that are on nothing, have a name that the kernel counts.
func (ids identities) other(o *match.Object, further string) (id string, counted bool, err error) {
	own := o.Own()
	if own == "" && path.Base(path.Dir(o.Dir)) == "sound" {
		// That of a card: its driver gives it, and the kernel a number to the second with the same (sound/core/init.c).
		if own, err = o.Text("id"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", false, err
		}
		counted = match.Counted(own)
	}
	switch {
	case own == "":
		own, counted = o.Name, match.Counted(o.Name)
	case ids.own[own+further] > 1 && own != o.Name:
		own, counted = own+"-"+o.Name, match.Counted(o.Name)
	}
	if own == ids.kind.Name {
		return own, counted, nil
	}
	return ids.kind.Name + "-" + own, counted, nil
}

// numbers are the files with the number of a node or an interface among those of one function, by class.
// Drivers of network cards use either file (Documentation/ABI/testing/sysfs-class-net).
var numbers = map[string][]string{"tty": {"device/port_number"}, "video4linux": {"index"}, "net": {"dev_id", "dev_port"}}

// place returns what tells a node or an interface from the others of its function: cameras have several, and
// so have serial adapters and network cards with several ports. It is empty for the first, and for a
// device of all of them.
func (ids identities) place(o *match.Object) (string, error) {
	if ids.kind.MergeBy != nil {
		return "", nil
	}
	for _, file := range numbers[path.Base(path.Dir(o.Dir))] {
		switch n, err := o.Uint(file); {
		case errors.Is(err, fs.ErrNotExist), err == nil && n == 0:
		case err != nil:
			return "", err
		default:
			return "-" + strconv.FormatUint(n, 10), nil
		}
	}
	return "", nil
}

// problems returns a problem for each serial number that several USB devices have, if one of them is listed.
func (ids identities) problems(units []engine.Unit) (problems []string) {
	listed := map[string]bool{}
	for _, u := range units {
		if p, err := readingIn(u.Devices[0]).objects[0].Object.Port(); err == nil {
			listed[ids.twins[p.Dir]] = true
		}
	}
	ports := map[string][]string{}
	for dir, key := range ids.twins {
		if listed[key] {
			ports[key] = append(ports[key], path.Base(dir))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(ports)) {
		slices.Sort(ports[key])
		problems = append(problems, fmt.Sprintf("the USB devices %s have the same vendor, product and serial number, "+
			"so their IDs have the ports, and change when one is moved, added or removed: give the kind an id with {usb.port} to keep them", strings.Join(ports[key], ", ")))
	}
	return problems
}

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
			"%d devices have the ID %s, so none of them is listed: give the kind an id that tells them apart, such as one with {usb.port}", n, u.ID)})
	}
	return kept, problems
}
