package drm

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// None is the number of a minor that a device does not have.
const None = -1

// Device is a device with DRM minors.
type Device struct {
	// Name is the kernel's, such as 0000:63:00.0 or amdgpu_xcp_3.
	Name string
	// Address is that of a PCI function, if IsPCI.
	Address pci.Address
	IsPCI   bool
	// Card is N of /dev/dri/cardN, Render that of /dev/dri/renderDN; None if there is
	// none.
	Card, Render int
}

// IsPartition reports whether the device is the platform device of a partition.
func (d Device) IsPartition() bool {
	number, ok := strings.CutPrefix(d.Name, "amdgpu_xcp")
	if !ok || d.IsPCI || number == "" || (number[0] != '_' && number[0] != '.') {
		return false
	}
	_, ok = natural(number[1:])
	return ok
}

// Problem is a minor that is left out, with its device, and why.
type Problem struct {
	// Minor is the name, such as renderD128.
	Minor string
	// Err names the file.
	Err error
}

// Class is what was found in one pass.
type Class struct {
	// Devices are by name.
	Devices  []Device
	Problems []Problem
	// Torn: minors came or went during the pass.
	Torn bool
}

// maxMinors bounds what is read: DRM has 2^20 minors, and a machine a few hundred
// entries, connectors included.
const maxMinors = 16384

// Read reads the class in one pass. root is that of sysfs, usually /sys. The error is
// fs.ErrNotExist on a machine without DRM. It can be called concurrently.
func Read(root string) (Class, error) { return read(root, func() {}) }

// read is Read; a test changes the tree in between.
func read(root string, between func()) (Class, error) {
	dir := filepath.Join(root, "class", "drm")
	before, err := list(dir)
	if err != nil {
		return Class{}, err
	}
	var c Class
	devices := map[string]*Device{}
	spoilt := map[string]bool{} // devices of which a minor cannot be read
	for _, m := range before {
		name, err := device(dir, m)
		if err == nil {
			err = add(devices, name, m)
		}
		if err != nil {
			c.Problems = append(c.Problems, Problem{Minor: m.name, Err: err})
			spoilt[name] = true
		}
	}
	for name, d := range devices {
		if !spoilt[name] {
			c.Devices = append(c.Devices, *d)
		}
	}
	slices.SortFunc(c.Devices, func(a, b Device) int { return cmp.Compare(a.Name, b.Name) })
	between()
	c.Torn = !same(dir, before)
	return c, nil
}

// same reports whether there are still the minors that there were.
func same(dir string, minors []minor) bool {
	after, err := list(dir)
	return err == nil && slices.Equal(after, minors)
}

// minor is an entry of the class.
type minor struct {
	name   string
	number int
	render bool
}

// list returns the minors, without connectors (card0-DP-1) and the rest.
func list(dir string) ([]minor, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("DRM devices: %w", err)
	}
	if len(entries) > maxMinors {
		return nil, fmt.Errorf("DRM devices: %s has %d entries, more than the %d that can be", dir, len(entries), maxMinors)
	}
	var minors []minor
	for _, e := range entries {
		m := minor{name: e.Name()}
		digits, ok := strings.CutPrefix(m.name, "card")
		if !ok {
			digits, m.render = strings.CutPrefix(m.name, "renderD")
		}
		if ok || m.render {
			if m.number, ok = natural(digits); ok {
				minors = append(minors, m)
			}
		}
	}
	return minors, nil
}

// natural reads a number as the kernel writes it: no sign, no leading zero.
func natural(digits string) (int, bool) {
	n, err := strconv.Atoi(digits)
	return n, err == nil && n >= 0 && strconv.Itoa(n) == digits
}

// device returns the name of the device that a minor is of. The class has a link to
// …/<device>/drm/<minor>; only its text is read, no link is followed. The name comes with an
// error, too, if it could be read.
func device(dir string, m minor) (string, error) {
	path := filepath.Join(dir, m.name)
	target, err := os.Readlink(path)
	if err != nil {
		return "", err
	}
	parts := strings.Split(target, "/")
	n := len(parts)
	if n < 4 || parts[n-1] != m.name || parts[n-2] != "drm" || parts[n-3] == ".." || parts[n-3] == "" {
		return "", fmt.Errorf("%s leads to %s, want the device and then drm/%s", path, sysfs.Quote(target), m.name)
	}
	name := parts[n-3]
	// The numbers of the device node, which a container would get.
	text, err := sysfs.Text(filepath.Join(path, "dev"))
	if err != nil {
		return name, err
	}
	if _, number, ok := strings.Cut(text, ":"); !ok || number != strconv.Itoa(m.number) {
		return name, fmt.Errorf("%s is %s, want the minor %d", filepath.Join(path, "dev"), sysfs.Quote(text), m.number)
	}
	return name, nil
}

// add adds a minor of a device.
func add(devices map[string]*Device, name string, m minor) error {
	d := devices[name]
	if d == nil {
		d = &Device{Name: name, Card: None, Render: None}
		if address, err := pci.ParseAddress(name); err == nil {
			d.Address, d.IsPCI = address, true
		}
		devices[name] = d
	}
	place, kind := &d.Card, "card"
	if m.render {
		place, kind = &d.Render, "render"
	}
	if *place != None {
		return fmt.Errorf("%s has two %s minors, %d and %d", name, kind, *place, m.number)
	}
	*place = m.number
	return nil
}
