package intel

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// reader is one pass.
type reader struct {
	root   string
	family Family // empty for all
	file   func(path string, limit int) ([]byte, error)
	// firmware are the versions of earlier readings; nil to read them each time.
	firmware *firmwares
	problems []driver.Problem
}

// problem adds a problem; lost: the device is left out for it.
func (r *reader) problem(device string, lost bool, err error) {
	r.problems = append(r.problems, driver.Problem{Device: device, Lost: lost, Err: err})
}

// text returns the content of a file without NUL and white space around it.
func (r *reader) text(parts ...string) (string, error) {
	b, err := r.file(filepath.Join(parts...), sysfs.Limit)
	if err != nil {
		return "", err
	}
	return driver.Clean(string(b)), nil
}

// optional returns the content of an optional file; empty if there is none. A file that cannot
// be read is a problem.
func (r *reader) optional(device string, parts ...string) string {
	text, err := r.text(parts...)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.problem(device, false, err)
	}
	return text
}

// number reads an optional number; 0 if there is none.
func (r *reader) number(device string, limit uint64, parts ...string) uint64 {
	n, _ := r.reported(device, limit, parts...)
	return n
}

// reported is number, and whether there is one.
func (r *reader) reported(device string, limit uint64, parts ...string) (n uint64, ok bool) {
	text := r.optional(device, parts...)
	if text == "" {
		return 0, false
	}
	n, err := driver.ParseNumber(text)
	if err == nil && n > limit {
		err = fmt.Errorf("%d is more than %d", n, limit)
	}
	if err != nil {
		r.problem(device, false, &fs.PathError{Op: "read", Path: filepath.Join(parts...), Err: err})
		return 0, false
	}
	return n, true
}

// id reads an ID; empty if the kernel does not report one.
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
			r.problem(device, false, &fs.PathError{Op: "read", Path: file, Err: err})
			continue
		}
		below, _ := filepath.Rel(r.root, file)
		all = append(all, Register{Name: registerName(name), File: below, High: high, Low: low})
	}
	return all
}

// registerName returns Linux's name of a register that the older driver names otherwise.
func registerName(file string) string {
	if rest, ok := strings.CutPrefix(file, "fme-errors/"); ok {
		if rest == "errors" {
			return "fme_errors"
		}
		return rest
	}
	return file
}

// dirs returns the directories in a directory, without links, whose names have a number
// after the prefix.
func dirs(dir, prefix string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range entries {
		if isNumbered(e.Name(), prefix) && e.IsDir() {
			all = append(all, filepath.Join(dir, e.Name()))
		}
	}
	return all, nil
}

// silent is a register of a card that does not answer: the bus returns all ones.
const silent = math.MaxUint64

// below reports whether a path is in a directory.
func below(path, dir string) bool { return strings.HasPrefix(path, dir+"/") }

// member is a device of a class.
type member struct {
	class, name string
	// dir is its directory, without links.
	dir string
	err error
}

// isNumbered reports whether a name is the prefix and a number, such as region12.
func isNumbered(name, prefix string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	return ok && rest != "" && len(rest) <= 6 && strings.Trim(rest, "0123456789") == ""
}

// firmwares are the versions that were read, by region. The controller is behind a slow
// bus, and gets other firmware only with a restart of the card, over which the region's
// directory is another one. The zero value has none, and can be used concurrently.
type firmwares struct {
	mu sync.Mutex
	of map[string]firmware
}

type firmware struct {
	// inode is that of the region's directory.
	inode    uint64
	versions map[string]string
}
