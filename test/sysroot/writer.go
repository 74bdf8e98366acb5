package sysroot

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Writer makes files below a root, until the first error. Names are paths below the
// root, such as "sys/class/drm/version".
type Writer struct {
	Root string
	Err  error
}

// Do takes over an error, if it is the first.
func (w *Writer) Do(err error) {
	if w.Err == nil {
		w.Err = err
	}
}

// Path is where a name is on disk.
func (w *Writer) Path(name string) string { return filepath.Join(w.Root, name) }

// Dir makes directories, and those above them.
func (w *Writer) Dir(names ...string) {
	for _, name := range names {
		if w.Err == nil {
			w.Do(os.MkdirAll(w.Path(name), 0o755))
		}
	}
}

// File makes a file, and the directories above it.
func (w *Writer) File(name, text string) {
	if w.Err != nil {
		return
	}
	err := os.WriteFile(w.Path(name), []byte(text), 0o644)
	if errors.Is(err, os.ErrNotExist) {
		w.Dir(filepath.Dir(name))
		err = os.WriteFile(w.Path(name), []byte(text), 0o644)
	}
	w.Do(err)
}

// Link makes a link whose target is as given.
func (w *Writer) Link(name, target string) {
	if w.Err == nil {
		w.Dir(filepath.Dir(name))
		w.Do(os.Symlink(target, w.Path(name)))
	}
}

// Relative makes a link to another path of the tree, relative as the kernel's are.
func (w *Writer) Relative(name, to string) {
	target, err := filepath.Rel(filepath.Dir(name), to)
	w.Do(err)
	w.Link(name, target)
}

// Remove removes a file, or a directory with all that is in it.
func (w *Writer) Remove(name string) {
	if w.Err == nil {
		w.Do(os.RemoveAll(w.Path(name)))
	}
}

// Node makes a device node where that is allowed, and an empty file elsewhere.
func (w *Writer) Node(name string, major, minor int) {
	if w.Err != nil {
		return
	}
	err := unix.Mknod(w.Path(name), unix.S_IFCHR|0o660, int(unix.Mkdev(uint32(major), uint32(minor))))
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		err = os.WriteFile(w.Path(name), nil, 0o660)
	}
	w.Do(err)
}

// Staging is the directory below a root where [Replace] makes files; it is on the same
// file system, and no part of what a kernel shows.
const Staging = ".staging"

// Replace writes a file so that a reader sees what was there before, or all of it. No
// directory above it may be a link; see [Real].
func Replace(root, name, text string) error {
	if err := os.MkdirAll(filepath.Join(root, Staging), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Join(root, Staging), "file")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(root, name))
}

// Real is the name of a file without links in the directories above it.
func Real(root, name string) (string, error) {
	dir, err := filepath.EvalSymlinks(filepath.Join(root, filepath.Dir(name)))
	if err != nil {
		return "", err
	}
	root, err = filepath.EvalSymlinks(root)
	if err != nil {
		return "", err
	}
	dir, err = filepath.Rel(root, dir)
	return filepath.Join(dir, filepath.Base(name)), err
}
