package manager

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// reader is one pass.
type reader struct {
	root, devices string
	settings      Settings
	file          func(path string, limit int) ([]byte, error)
	problems      []driver.Problem
}

// problem adds a problem; lost: the device is left out for it.
func (r *reader) problem(device string, lost bool, err error) {
	r.problems = append(r.problems, driver.Problem{Device: device, Lost: lost, Err: err})
}

// text returns the content of a file, without NUL and white space around it. What no driver
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

// line returns the text of a file that has one line, and something in it.
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

// relative returns a path below the root of sysfs.
func (r *reader) relative(path string) string {
	rel, err := filepath.Rel(r.root, path)
	if err != nil {
		return path
	}
	return rel
}
