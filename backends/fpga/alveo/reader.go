package alveo

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// reader is one pass.
type reader struct {
	root     string
	file     func(path string, limit int) ([]byte, error)
	problems []driver.Problem
}

// problem adds a problem; lost: the function is left out for it.
func (r *reader) problem(device string, lost bool, err error) {
	r.problems = append(r.problems, driver.Problem{Device: device, Lost: lost, Err: err})
}

// dir is where a function is; below is the same without the root.
func (r *reader) dir(at pci.Address) string { return filepath.Join(r.root, below(at)) }

func below(at pci.Address) string { return "bus/pci/devices/" + at.String() }

// text returns the content of a file without NUL and white space around it.
func (r *reader) text(parts ...string) (string, error) {
	b, err := r.file(filepath.Join(parts...), sysfs.Limit)
	if err != nil {
		return "", err
	}
	return strings.Trim(string(b), "\x00 \t\r\n"), nil
}

// unreported reports whether an error means that the kernel does not report a value: there is
// no file, or its driver has nothing to put there.
func unreported(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENODEV)
}

// optional returns the content of a file that a card can do without; empty if there is none. A file
// that cannot be read is a problem.
func (r *reader) optional(device string, parts ...string) string {
	text, err := r.text(parts...)
	if err != nil && !unreported(err) {
		r.problem(device, false, err)
	}
	return text
}

// flag reads a file that is 0 or 1; one that is not there is 0.
func (r *reader) flag(device string, parts ...string) bool {
	text := r.optional(device, parts...)
	if text == "" {
		return false
	}
	n, err := driver.ParseNumber(text)
	if err != nil || n > 2 {
		r.problem(device, false, &fs.PathError{Op: "read", Path: filepath.Join(parts...), Err: fmt.Errorf("%s is neither 0 nor 1", sysfs.Quote(text))})
		return false
	}
	return n != 0
}

// number reads a number that a card can do without; nil if there is none.
func (r *reader) number(device string, parts ...string) *uint64 {
	text := r.optional(device, parts...)
	if text == "" {
		return nil
	}
	n, err := driver.ParseNumber(text)
	if err != nil {
		r.problem(device, false, &fs.PathError{Op: "read", Path: filepath.Join(parts...), Err: err})
		return nil
	}
	return &n
}

// orZero returns a number, 0 for none.
func orZero(n *uint64) uint64 {
	if n == nil {
		return 0
	}
	return *n
}

// uuids reads a file with one on each line; reported is false if the kernel has no value.
func (r *reader) uuids(device string, parts ...string) (ids []bitstream.UUID, reported bool) {
	text, err := r.text(parts...)
	if err == nil {
		ids, err = parseUUIDs(text)
	}
	if err != nil {
		if !unreported(err) {
			r.problem(device, false, fmt.Errorf("read %s: %w", filepath.Join(parts...), err))
		}
		return nil, false
	}
	return ids, true
}

// shell reads the static part. It is empty if there is no feature ROM, as in reset.
func (r *reader) shell(f function) (Shell, error) {
	roms := f.subdevices("rom")
	if len(roms) == 0 {
		return Shell{}, nil
	}
	if len(roms) > 1 {
		return Shell{}, fmt.Errorf("it has %d feature ROMs (%s), want one", len(roms), strings.Join(roms, ", "))
	}
	dir := filepath.Join(r.dir(f.at), roms[0])
	vbnv, err := r.text(dir, "VBNV")
	if err != nil {
		return Shell{}, err
	}
	if driver.Printable(vbnv) == "" {
		return Shell{}, fmt.Errorf("%s is %s, want the name of a shell", filepath.Join(dir, "VBNV"), sysfs.Quote(vbnv))
	}
	text, err := r.text(dir, "timestamp")
	if err != nil {
		return Shell{}, err
	}
	s := Shell{VBNV: vbnv}
	if s.Timestamp, err = driver.ParseNumber(text); err != nil {
		return Shell{}, &fs.PathError{Op: "read", Path: filepath.Join(dir, "timestamp"), Err: err}
	}
	s.Logic, _ = r.uuids(f.at.String(), r.dir(f.at), "logic_uuids")
	s.Interfaces, _ = r.uuids(f.at.String(), r.dir(f.at), "interface_uuids")
	return s, nil
}

// serial is what a function reports of the board's serial number.
type serial struct {
	text string
	err  error
}

// serial reads it from the board's controller; Versal cards have another kind of it. A card
// without a controller, as on AWS, has none.
func (r *reader) serial(f function) serial {
	var s serial
	for _, dir := range append(f.subdevices("xmc"), f.subdevices("hwmon_sdm")...) {
		file := filepath.Join(r.dir(f.at), dir, "serial_num")
		text, err := r.text(file)
		if err == nil && text != "" && !isSerial(text) {
			err = &fs.PathError{Op: "read", Path: file, Err: fmt.Errorf("%s is no serial number", sysfs.Quote(text))}
		}
		switch {
		case err == nil && text != "":
			return serial{text: text}
		case err != nil && !unreported(err):
			s.err = err
		}
	}
	return s
}

// firewall reads the state of the firewalls; nil if it is not reported. xocl requests it from
// xclmgmt each time and logs that, so it is read from xocl only if need be.
func (r *reader) firewall(f function) *Firewall {
	dirs := f.subdevices("firewall")
	if len(dirs) == 0 {
		return nil
	}
	device, dir := f.at.String(), filepath.Join(r.dir(f.at), dirs[0])
	status, err := r.text(dir, "status")
	if err != nil || status == "" {
		if err != nil && !unreported(err) {
			r.problem(device, false, err)
		}
		return nil
	}
	w := &Firewall{File: filepath.Join(below(f.at), dirs[0], "status")}
	if w.Status, err = driver.ParseNumber(status); err != nil {
		r.problem(device, false, &fs.PathError{Op: "read", Path: filepath.Join(dir, "status"), Err: err})
		return nil
	}
	w.Level = level(r.number(device, dir, "level"))
	w.Detected, w.DetectedLevel = orZero(r.number(device, dir, "detected_status")), level(r.number(device, dir, "detected_level"))
	w.DetectedTime = orZero(r.number(device, dir, "detected_time"))
	w.DetectedName = driver.Printable(r.optional(device, dir, "detected_level_name"))
	return w
}

// level is a firewall's, -1 if it is not known: the driver prints -1 as a number without a sign.
func level(n *uint64) int {
	if n == nil || *n > math.MaxInt32 {
		return -1
	}
	return int(*n)
}

// names returns what is in a directory; none if it is not there.
func names(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// maxUUIDs bounds the UUIDs in a file: a card has at most 128 slots (MAX_SLOT_SUPPORT in XRT's
// xocl_drv.h).
const maxUUIDs = 128

// parseUUIDs reads one on each line; those of zeros stand for none.
func parseUUIDs(text string) ([]bitstream.UUID, error) {
	var all []bitstream.UUID
	for line := range strings.FieldsSeq(text) {
		id, err := bitstream.ParseUUID(line)
		switch {
		case err != nil:
			return nil, err
		case len(all) == maxUUIDs:
			return nil, fmt.Errorf("it has more than %d UUIDs", maxUUIDs)
		case !id.IsZero():
			all = append(all, id)
		}
	}
	return all, nil
}

// maxSerial is the length of a serial number that fits into an ID.
const maxSerial = 40

// isSerial reports whether text can be a board's serial number, and be in an ID.
func isSerial(text string) bool {
	return text != "" && len(text) <= maxSerial && isLetter(rune(text[0])) && isLetter(rune(text[len(text)-1])) &&
		!strings.ContainsFunc(text, func(r rune) bool { return !isLetter(r) && !strings.ContainsRune("-_.", r) })
}

// function is a PCI function of one of the drivers.
type function struct {
	at pci.Address
	// names are what is in its directory, without an order.
	names []string
	// states are the files of its state, which may change while names do not.
	states [3]string
	err    error
}

func (f function) equal(g function) bool {
	return f.at == g.at && f.states == g.states && slices.Equal(f.names, g.names) && fmt.Sprint(f.err) == fmt.Sprint(g.err)
}

func (f function) has(name string) bool { return slices.Contains(f.names, name) }

// subdevices returns the directories of a kind, such as rom.u.1025.
func (f function) subdevices(kind string) []string {
	var all []string
	for _, name := range f.names {
		if rest, ok := strings.CutPrefix(name, kind+"."); ok && rest != "" {
			all = append(all, name)
		}
	}
	return all
}
