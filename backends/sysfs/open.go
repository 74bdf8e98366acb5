package sysfs

import (
	"errors"
	"io/fs"
	"math"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Open reads attributes that are read often, and leaves their files open: a third of the time of
// [Attribute]. An attribute that was removed, or replaced, is opened again. A path that leads elsewhere
// by a changed link is not noticed before Close. It is not safe for concurrent use.
type Open struct{ files map[string]int }

// NewOpen returns one without files. They are closed when it is no longer used.
func NewOpen() *Open {
	o := &Open{files: map[string]int{}}
	runtime.AddCleanup(o, closeAll, o.files)
	return o
}

// maxOpen is how many files stay open: of sysfs the kernel has a page of memory for each.
var maxOpen = sync.OnceValue(func() int {
	limit := unix.Rlimit{Cur: math.MaxUint64}
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // then as without a limit
	return int(min(limit.Cur/8, 2048))             //nolint:gosec // at most 2,048
})

// Close closes all files. They are opened again when they are read.
func (o *Open) Close() { closeAll(o.files) }

func closeAll(files map[string]int) {
	for _, fd := range files {
		_ = unix.Close(fd) // nothing was written
	}
	clear(files)
}

// Attribute is [Attribute] by an open file.
func (o *Open) Attribute(path string) (string, error) {
	fd, ok := o.files[path]
	if ok {
		// The kernel has no data for an attribute that is gone; a file of a test's tree has no link then.
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err == nil && stat.Nlink > 0 {
			if text, err := attribute(fd); err == nil {
				return text, nil
			}
		}
		delete(o.files, path)
		_ = unix.Close(fd) // nothing was written
	}
	if len(o.files) >= maxOpen() {
		return Attribute(path)
	}
	fd, err := open(path)
	if err != nil {
		return "", &fs.PathError{Op: "read", Path: path, Err: err}
	}
	text, err := attribute(fd)
	if err == nil && stays(fd) {
		o.files[path] = fd
		return text, nil
	}
	_ = unix.Close(fd) // nothing was written
	switch {
	case errors.Is(err, errMore):
		return Text(path)
	case err != nil:
		return "", &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return text, nil
}

// stays reports whether a file may stay open. One of debugfs may not: no module of a driver could be
// unloaded meanwhile (full_proxy_open in the kernel).
func stays(fd int) bool {
	var stat unix.Statfs_t
	return unix.Fstatfs(fd, &stat) == nil && stat.Type != unix.DEBUGFS_MAGIC
}
