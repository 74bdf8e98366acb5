package intel

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/accelmux/accelmux/backends/sysfs"
)

// reader is one pass.
type reader struct {
	root     string
	families []Family
	file     func(path string, limit int) ([]byte, error)
	// firmware are the versions of earlier readings; nil to read them each time.
	firmware *firmwares
	problems []Problem
}

// doubt notes a problem; lost says that the device is left out for it.
func (r *reader) doubt(device string, lost bool, err error) {
	r.problems = append(r.problems, Problem{Device: device, Lost: lost, Err: err})
}

// text is the content of a file without NUL and white space around it.
func (r *reader) text(parts ...string) (string, error) {
	b, err := r.file(filepath.Join(parts...), sysfs.Limit)
	if err != nil {
		return "", err
	}
	return clean(string(b)), nil
}

// optional is the content of a file that a card can do without; empty if there is none.
// What cannot be read is noted.
func (r *reader) optional(device string, parts ...string) string {
	text, err := r.text(parts...)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.doubt(device, false, err)
	}
	return text
}

// number is what a file says that a card can do without; 0 if there is none.
func (r *reader) number(device string, limit uint64, parts ...string) uint64 {
	text := r.optional(device, parts...)
	if text == "" {
		return 0
	}
	n, err := parseNumber(text)
	if err == nil && n > limit {
		err = fmt.Errorf("%d is more than %d", n, limit)
	}
	if err != nil {
		r.doubt(device, false, &fs.PathError{Op: "read", Path: filepath.Join(parts...), Err: err})
		return 0
	}
	return n
}

// id reads an ID; empty if the kernel does not say one.
func (r *reader) id(parts ...string) (string, error) {
	text, err := r.text(parts...)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	id, err := ParseID(text)
	if err != nil {
		return "", &fs.PathError{Op: "read", Path: filepath.Join(parts...), Err: err}
	}
	return id, nil
}

// node reads which device node a directory has.
func (r *reader) node(dir string) (Node, error) {
	file := filepath.Join(dir, "dev")
	text, err := r.text(file)
	if err != nil {
		return Node{}, err
	}
	major, minor, err := parseDev(text)
	if err != nil {
		return Node{}, &fs.PathError{Op: "read", Path: file, Err: err}
	}
	return Node{Name: filepath.Base(dir), Major: major, Minor: minor}, nil
}

// registers reads those of a directory that there are.
func (r *reader) registers(device, dir string, names []string) []Register {
	var all []Register
	for _, name := range names {
		file := filepath.Join(dir, name)
		text := r.optional(device, file)
		if text == "" {
			continue
		}
		high, low, err := parseRegister(text)
		if err != nil {
			r.doubt(device, false, &fs.PathError{Op: "read", Path: file, Err: err})
			continue
		}
		below, _ := filepath.Rel(r.root, file)
		all = append(all, Register{Name: registerName(name), File: below, High: high, Low: low})
	}
	return all
}

// registerName is the name in Linux of what the older driver has elsewhere.
func registerName(file string) string {
	if rest, ok := strings.CutPrefix(file, "fme-errors/"); ok {
		if rest == "errors" {
			return "fme_errors"
		}
		return rest
	}
	return file
}

// dirs are the directories in a directory, without links, whose names have a number
// after the prefix.
func dirs(dir, prefix string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range entries {
		if _, ok := numbered(e.Name(), prefix); ok && e.IsDir() {
			all = append(all, filepath.Join(dir, e.Name()))
		}
	}
	return all, nil
}

// printable is text for people: what is no such text is left out altogether.
func printable(text string) string {
	if len(text) > 128 || strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) || c == unicode.ReplacementChar }) {
		return ""
	}
	return text
}

// silent is a register of a card that does not answer: the bus gives all ones.
const silent = math.MaxUint64
