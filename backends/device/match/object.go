package match

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/devnode"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// Object is a directory in sysfs that was found, such as that of a render node or of a PCI
// function. It is never changed.
type Object struct {
	// Name is the last element of the path by which it was found, such as card0.
	Name string
	// Dir is its directory below the root of sysfs, without links: devices/virtual/misc/kvm. For a directory
	// of device nodes it is that directory's path, where sysfs has nothing: dev/snd.
	Dir string
	// Node is its device node on the host, such as /dev/kvm, or a directory of device nodes; empty if it has
	// none.
	Node string
	// Number is the number of the device node; nil without one.
	Number *devnode.Number

	// sysfs is the root.
	sysfs string
	// open has the files that are left open; nil for none.
	open *sysfs.Open
	// moved is the memory of [Object.Remembering]; nil for none.
	moved *Moved
}

// maxNames is how many names [Object.Names] returns.
const maxNames = 1024

// Root returns the whole of sysfs as an object, for files at fixed places.
func Root(sysfs string) *Object { return &Object{sysfs: sysfs} }

// Opening returns the object with files that are left open when [Object.Text] has read them. It is not safe
// for concurrent use.
func (o *Object) Opening(files *sysfs.Open) *Object {
	also := *o
	also.open = files
	return &also
}

// Path returns the path of a file of the object. A file is below the object, and may be
// behind a link, as device/vendor is.
func (o *Object) Path(file string) (string, error) {
	if file == "" || path.IsAbs(file) || slices.Contains(strings.Split(file, "/"), "..") || strings.Contains(file, "\x00") {
		return "", fmt.Errorf("%q is no file below the object: neither / at its beginning nor .. may be in it", file)
	}
	return filepath.Join(o.sysfs, o.Dir, file), nil
}

// Text returns the content of a file without the white space around it, or, of FILE#NAME, the value of
// NAME in a file that is a table: a name and a value a line, as in aer_dev_fatal
// (Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats). Errors are those of [sysfs.Attribute]; a table that
// lacks the name is [fs.ErrNotExist].
func (o *Object) Text(file string) (string, error) {
	file, row, isTable := strings.Cut(file, "#")
	text, err := o.read(file)
	if err != nil || !isTable {
		return text, err
	}
	for line := range strings.Lines(text) {
		// A name may have spaces, as "Receiver Error" in aer_dev_correctable.
		line = strings.TrimSpace(line)
		if i := strings.LastIndexAny(line, " \t"); i > 0 && strings.TrimSpace(line[:i]) == row {
			return line[i+1:], nil
		}
	}
	return "", &fs.PathError{Op: "find " + row + " in", Path: filepath.Join(o.sysfs, o.Dir, file), Err: fs.ErrNotExist}
}

func (o *Object) read(file string) (string, error) {
	at, err := o.Path(file)
	if err != nil {
		return "", err
	}
	read := sysfs.Attribute
	if o.open != nil {
		read = o.open.Attribute
	}
	text, err := read(at)
	if known := o.remember(file, oneOf(text, err)); len(known) > 0 {
		text, err = known[0], nil
	}
	return strings.ToValidUTF8(text, "\uFFFD"), err
}

// oneOf returns a text; none if it could not be read.
func oneOf(text string, err error) []string {
	if err != nil {
		return nil
	}
	return []string{text}
}

// Uint returns the number in a file: decimal digits, or hexadecimal ones after 0x.
func (o *Object) Uint(file string) (uint64, error) {
	text, err := o.Text(file)
	if err != nil {
		return 0, err
	}
	hex, isHex := strings.CutPrefix(strings.ToLower(text), "0x")
	base := 10
	if isHex {
		base = 16
	}
	n, err := strconv.ParseUint(hex, base, 63)
	if err != nil {
		return 0, &fs.PathError{Op: "read", Path: filepath.Join(o.sysfs, o.Dir, file), Err: fmt.Errorf("%s is no number of 63 bits", sysfs.Quote(text))}
	}
	return n, nil
}

// Has reports whether a file, directory or link exists, or the name of a table, as [Object.Text] has it.
// An error is not about absence.
func (o *Object) Has(file string) (bool, error) {
	at, err := o.Path(file)
	if strings.Contains(file, "#") {
		_, err = o.Text(file)
	} else if err == nil {
		_, err = os.Stat(at)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return len(o.remember(file, nil)) > 0, nil
	}
	if err == nil {
		o.remember(file, []string{""})
	}
	return err == nil, err
}

// Link returns the last element of what a link points to, such as the name of a driver.
func (o *Object) Link(file string) (string, error) {
	at, err := o.Path(file)
	if err != nil {
		return "", err
	}
	to, err := os.Readlink(at)
	return filepath.Base(strings.ToValidUTF8(to, "\uFFFD")), err
}

// Names returns the names that match a pattern of [path.Match], which may be in directories
// below the object, sorted, video9 before video10; not their paths. At most 1,024 are returned.
func (o *Object) Names(pattern string) ([]string, error) {
	if _, err := o.Path(pattern); err != nil {
		return nil, err
	}
	found, err := fs.Glob(os.DirFS(filepath.Join(o.sysfs, o.Dir)), pattern)
	if err != nil {
		return nil, fmt.Errorf("%q is no pattern: %w", pattern, err)
	}
	var names []string
	for _, one := range found[:min(len(found), maxNames)] {
		names = append(names, strings.ToValidUTF8(path.Base(one), "\uFFFD"))
	}
	slices.SortFunc(names, compareNames)
	return o.remember(pattern, names), nil
}

// Hardware is the nearest PCI function or USB device that an object is on, or is.
type Hardware struct {
	// Dir is its directory below the root of sysfs; that of the object itself without hardware.
	Dir string
	// PCI is nil for an object that is not on PCI, or on USB behind it.
	PCI *pci.Address
	// USB is set for an object on USB.
	USB bool
}

// Hardware returns what the object is on.
func (o *Object) Hardware() Hardware {
	for dir := o.Dir; dir != "." && dir != ""; dir = path.Dir(dir) {
		name := path.Base(dir)
		if isUSB(name) {
			return Hardware{Dir: dir, USB: true}
		}
		if at, ok := address(name); ok {
			return Hardware{Dir: dir, PCI: &at}
		}
	}
	return Hardware{Dir: o.Dir}
}

// Function returns the PCI function that the object is on, be it a USB controller's. The error
// says that there is none.
func (o *Object) Function() (*Function, error) {
	for dir := o.Dir; dir != "." && dir != ""; dir = path.Dir(dir) {
		if at, ok := address(path.Base(dir)); ok {
			return &Function{Object: Object{Name: path.Base(dir), Dir: dir, sysfs: o.sysfs, open: o.open, moved: o.moved}, Address: at}, nil
		}
	}
	return nil, fmt.Errorf("%s is not on a PCI device: %w", o.Name, fs.ErrNotExist)
}

// Port returns the USB device that the object is on. The error says that there is none.
func (o *Object) Port() (*Port, error) {
	p := &Port{}
	for dir := o.Dir; dir != "." && dir != ""; dir = path.Dir(dir) {
		name := path.Base(dir)
		if isUSB(name) {
			p.Object = Object{Name: name, Dir: dir, sysfs: o.sysfs, open: o.open, moved: o.moved}
			return p, nil
		}
		if port, number, ok := strings.Cut(name, ":"); ok && isUSB(port) {
			if _, number, ok = strings.Cut(number, "."); ok {
				p.Interface = number
			}
		}
	}
	return nil, fmt.Errorf("%s is not on a USB device: %w", o.Name, fs.ErrNotExist)
}

// NUMANode returns the node that the object is close to, by walking up; -1 if it is unknown.
func (o *Object) NUMANode() int {
	for dir := o.Dir; dir != "." && dir != ""; dir = path.Dir(dir) {
		text, err := sysfs.Attribute(filepath.Join(o.sysfs, dir, "numa_node"))
		if err != nil {
			continue
		}
		if n, err := strconv.ParseUint(text, 10, 16); err == nil {
			return int(n)
		}
	}
	return -1
}

// address parses the name of a directory of a PCI function, which has the form of the kernel.
func address(name string) (pci.Address, bool) {
	if strings.Count(name, ":") != 2 {
		return pci.Address{}, false
	}
	at, err := pci.ParseAddress(name)
	return at, err == nil && at.String() == name
}

// isUSB reports whether a directory's name is that of a USB device, such as 1-2.3: bus and
// ports, or that of a root hub, such as usb1.
func isUSB(name string) bool {
	if bus, ok := strings.CutPrefix(name, "usb"); ok {
		return isDigits(bus)
	}
	bus, ports, ok := strings.Cut(name, "-")
	if !ok || !isDigits(bus) {
		return false
	}
	for port := range strings.SplitSeq(ports, ".") {
		if !isDigits(port) {
			return false
		}
	}
	return true
}

// isDigits reports whether a text is a number from 1 on as the kernel writes it; names of devices on
// I2C, such as 1-0068, have leading zeros.
func isDigits(text string) bool {
	return text != "" && text[0] != '0' && strings.Trim(text, "0123456789") == ""
}
