package alveo

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// reader is one pass.
type reader struct {
	root     string
	file     func(path string, limit int) ([]byte, error)
	problems []Problem
}

// doubt notes a problem; lost says that the function is left out for it.
func (r *reader) doubt(device string, lost bool, err error) {
	r.problems = append(r.problems, Problem{Device: device, Lost: lost, Err: err})
}

// dir is where a function is; below is the same without the root.
func (r *reader) dir(at pci.Address) string { return filepath.Join(r.root, below(at)) }

func below(at pci.Address) string { return "bus/pci/devices/" + at.String() }

// text is the content of a file without NUL and white space around it.
func (r *reader) text(parts ...string) (string, error) {
	b, err := r.file(filepath.Join(parts...), sysfs.Limit)
	if err != nil {
		return "", err
	}
	return strings.Trim(string(b), "\x00 \t\r\n"), nil
}

// unsaid reports whether an error means that the kernel does not say a thing: there is
// no file, or its driver has nothing to put there.
func unsaid(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENODEV)
}

// optional is the content of a file that a card can do without; empty if it says
// nothing. What cannot be read is noted.
func (r *reader) optional(device string, parts ...string) string {
	text, err := r.text(parts...)
	if err != nil && !unsaid(err) {
		r.doubt(device, false, err)
	}
	return text
}

// flag reads a file that is 0 or 1; one that is not there is 0.
func (r *reader) flag(device string, parts ...string) bool {
	text := r.optional(device, parts...)
	if text == "" {
		return false
	}
	n, err := parseNumber(text)
	if err != nil || n > 2 {
		r.doubt(device, false, &fs.PathError{Op: "read", Path: filepath.Join(parts...), Err: fmt.Errorf("%s is neither 0 nor 1", sysfs.Quote(text))})
		return false
	}
	return n != 0
}

// number reads a number that a card can do without; 0 if it says none.
func (r *reader) number(device string, parts ...string) uint64 {
	text := r.optional(device, parts...)
	if text == "" {
		return 0
	}
	n, err := parseNumber(text)
	if err != nil {
		r.doubt(device, false, &fs.PathError{Op: "read", Path: filepath.Join(parts...), Err: err})
	}
	return n
}

// uuids reads a file with one on each line. Said is false if the kernel does not say.
func (r *reader) uuids(device string, parts ...string) (ids []bitstream.UUID, said bool) {
	text, err := r.text(parts...)
	if err == nil {
		ids, err = parseUUIDs(text)
	}
	if err != nil {
		if !unsaid(err) {
			r.doubt(device, false, fmt.Errorf("read %s: %w", filepath.Join(parts...), err))
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
	if printable(vbnv) == "" {
		return Shell{}, fmt.Errorf("%s is %s, want the name of a shell", filepath.Join(dir, "VBNV"), sysfs.Quote(vbnv))
	}
	text, err := r.text(dir, "timestamp")
	if err != nil {
		return Shell{}, err
	}
	s := Shell{VBNV: vbnv}
	if s.Timestamp, err = parseNumber(text); err != nil {
		return Shell{}, &fs.PathError{Op: "read", Path: filepath.Join(dir, "timestamp"), Err: err}
	}
	s.Logic, _ = r.uuids(f.at.String(), r.dir(f.at), "logic_uuids")
	s.Interfaces, _ = r.uuids(f.at.String(), r.dir(f.at), "interface_uuids")
	return s, nil
}

// serial is what a function says of the board's serial number.
type serial struct {
	text string
	err  error
}

// serial reads it from the board's controller, of which Versal cards have another kind.
// A card without a controller, as on AWS, has none.
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
		case err != nil && !unsaid(err):
			s.err = err
		}
	}
	return s
}

// firewall reads what the firewalls say; nil if there is nothing that says it. xocl asks
// xclmgmt for it each time and logs that, so it is read from there only if need be.
func (r *reader) firewall(f function) *Firewall {
	dirs := f.subdevices("firewall")
	if len(dirs) == 0 {
		return nil
	}
	device, dir := f.at.String(), filepath.Join(r.dir(f.at), dirs[0])
	status, err := r.text(dir, "status")
	if err != nil || status == "" {
		if err != nil && !unsaid(err) {
			r.doubt(device, false, err)
		}
		return nil
	}
	w := &Firewall{File: filepath.Join(below(f.at), dirs[0], "status")}
	if w.Status, err = parseNumber(status); err != nil {
		r.doubt(device, false, &fs.PathError{Op: "read", Path: filepath.Join(dir, "status"), Err: err})
		return nil
	}
	w.Level = level(r.number(device, dir, "level"))
	w.Detected, w.DetectedLevel = r.number(device, dir, "detected_status"), level(r.number(device, dir, "detected_level"))
	w.DetectedTime = r.number(device, dir, "detected_time")
	w.DetectedName = printable(r.optional(device, dir, "detected_level_name"))
	return w
}

// level is a firewall's: the driver prints -1 as a number without a sign.
func level(n uint64) int {
	if n > math.MaxInt32 {
		return -1
	}
	return int(n)
}

// names are what is in a directory; none if it is not there.
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

// parseNumber reads a number of 64 bits, hexadecimal with 0x before it or decimal, as
// the drivers write them.
func parseNumber(text string) (uint64, error) {
	number, base := text, 10
	if rest, ok := strings.CutPrefix(strings.ToLower(text), "0x"); ok {
		number, base = rest, 16
	}
	n, err := strconv.ParseUint(number, base, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is no number of 64 bits", sysfs.Quote(text))
	}
	return n, nil
}

// maxUUIDs is how many a file may have: a card has 128 slots at most (MAX_SLOT_SUPPORT
// in XRT's xocl_drv.h).
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

// isSerial reports whether text is what boards have as a serial number, and can be in
// an ID.
func isSerial(text string) bool {
	return text != "" && len(text) <= maxSerial && isLetter(rune(text[0])) && isLetter(rune(text[len(text)-1])) &&
		!strings.ContainsFunc(text, func(r rune) bool { return !isLetter(r) && !strings.ContainsRune("-_.", r) })
}

// printable is text for people: what is no such text is left out altogether.
func printable(text string) string {
	if len(text) > 128 || strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) || c == unicode.ReplacementChar }) {
		return ""
	}
	return text
}
