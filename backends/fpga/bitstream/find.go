package bitstream

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/sysfs"
)

// longest is the length in bytes of the longest name of a file on Linux.
const longest = 255

// Find opens a bitstream in a directory, by a name that is not trusted, such as a
// container's. The name is that of a file in dir itself. It
// may be a link, as in a volume of a ConfigMap, but only to a file below dir, and
// by a relative path. Errors are for the operator and name the file; they wrap [fs.ErrNotExist]
// and [fs.ErrPermission]; those about the name describe what a
// name must be.
func Find(dir, name string) (*File, error) {
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("bitstream %s in %s: %w", sysfs.Quote(name), dir, err)
	}
	root, err := openDirectory(dir)
	if err != nil {
		return nil, fmt.Errorf("bitstream %s: %w", name, err)
	}
	defer func() { _ = root.Close() }()
	path := filepath.Join(dir, name)
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		if leadsOut(err) {
			return nil, fmt.Errorf("bitstream %s: it is a link that leads out of the directory or round in circles: only links by a relative path to a file below %s are followed", path, dir)
		}
		return nil, unopened(path, err)
	}
	return New(path, f)
}

// CheckDirectory returns why no bitstream could be found in a directory; nil if some could.
func CheckDirectory(dir string) error {
	root, err := openDirectory(dir)
	if err != nil {
		return err
	}
	return root.Close()
}

func openDirectory(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	if err != nil {
		return nil, fmt.Errorf("the directory of bitstreams, %s, cannot be opened: %w", dir, err)
	}
	return root, nil
}

// leadsOut reports whether a name could not be opened for where its link leads. Root's
// error for that has no name, but it is the only one that is not the system's.
func leadsOut(err error) bool {
	var system unix.Errno
	return !errors.As(err, &system) || system == unix.ELOOP
}

func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty: the name of a file in the directory was expected")
	case len(name) > longest:
		return fmt.Errorf("the name has %d bytes, and a file's name has %d at most", len(name), longest)
	case name == "." || name == "..":
		return errors.New("that is a directory: the name of a file in it was expected")
	case strings.ContainsAny(name, `/\`):
		return errors.New("it is a path: the name of a file in the directory was expected, without / and \\")
	case strings.ContainsFunc(name, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }):
		return errors.New("the name has a character that cannot be printed")
	}
	return nil
}
