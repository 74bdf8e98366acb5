package manager

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// tries is how often a machine that changes while it is read is read in all.
const tries = 4

// Read says which FPGAs there are, and how they are.
func (d *Driver) Read() driver.Reading {
	return read(d.sysfs, d.settings, sysfs.Read, func() {})
}

// read is Read; a test changes what files answer, and the tree between the parts of a
// pass.
func read(root string, settings Settings, file func(string, int) ([]byte, error), between func()) driver.Reading {
	for try := 1; ; try++ {
		r := reader{root: root, devices: filepath.Join(root, "devices"), settings: settings, file: file}
		before, err := r.look()
		if errors.Is(err, fs.ErrNotExist) {
			return driver.Reading{Absent: true}
		}
		if err != nil {
			return driver.Reading{Problems: []driver.Problem{{Device: "fpga_manager", Lost: true, Err: err}}}
		}
		between()
		cards := r.cards(before)
		between()
		after, err := r.look()
		torn := err != nil || !slices.Equal(before, after)
		if torn && try < tries {
			continue
		}
		slices.SortStableFunc(r.problems, func(a, b driver.Problem) int { return cmp.Compare(a.Device, b.Device) })
		return driver.Reading{Cards: cards, Problems: r.problems, Unsettled: torn}
	}
}

// reader is one pass.
type reader struct {
	root, devices string
	settings      Settings
	file          func(path string, limit int) ([]byte, error)
	problems      []driver.Problem
}

// doubt notes a problem; lost says that the device is left out for it.
func (r *reader) doubt(device string, lost bool, err error) {
	r.problems = append(r.problems, driver.Problem{Device: device, Lost: lost, Err: err})
}

// text is what a file says, without NUL and white space around it. What no driver
// writes is an error: it is not printed, and no name is made of it.
func (r *reader) text(limit int, parts ...string) (string, error) {
	file := filepath.Join(parts...)
	b, err := r.file(file, limit)
	if err != nil {
		return "", err
	}
	text := strings.Trim(string(b), "\x00 \t\r\n")
	if strings.ContainsFunc(text, func(c rune) bool { return c != '\n' && (!unicode.IsPrint(c) || c == unicode.ReplacementChar) }) {
		return "", &fs.PathError{Op: "read", Path: file, Err: fmt.Errorf("%s is no text", sysfs.Quote(text))}
	}
	return text, nil
}

// line is the text of a file that has one line, and something in it.
func (r *reader) line(parts ...string) (string, error) {
	text, err := r.text(longest, parts...)
	if err == nil && (text == "" || strings.Contains(text, "\n")) {
		err = &fs.PathError{Op: "read", Path: filepath.Join(parts...), Err: fmt.Errorf("%s is not one line of text", sysfs.Quote(text))}
	}
	return text, err
}

const (
	// longest is the length in bytes of names and states.
	longest = 256
	// page is what a file of sysfs has at most.
	page = 4096
)

// relative is a path below the root of sysfs.
func (r *reader) relative(path string) string {
	rel, err := filepath.Rel(r.root, path)
	if err != nil {
		return path
	}
	return rel
}
