package sysfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// Limit is how many bytes of a file [Text] and [Uint] read: sysfs gives a page (4 KiB, 64
	// KiB on some machines) for most files.
	Limit = 64 << 10
	// first is the size of the buffer, enough for most files.
	first = 4096
	// shown is how many bytes of a file an error quotes.
	shown = 40
)

var (
	// ErrTooLong means that a file is longer than the limit.
	ErrTooLong = errors.New("longer than can be")
	// ErrNotFile means that something is not a regular file.
	ErrNotFile = errors.New("not a regular file")
)

// pages are unused buffers.
var pages = sync.Pool{New: func() any { return new([first]byte) }}

// Read returns the content of a file, up to limit bytes; of a longer file the first limit bytes
// and ErrTooLong. Other errors are [fs.PathError], such as fs.ErrNotExist, ErrNotFile, or ENODEV
// for a device that its driver has released. It can be called concurrently.
func Read(path string, limit int) ([]byte, error) {
	wrong := func(err error) error { return &fs.PathError{Op: "read", Path: path, Err: err} }
	// Do not block: opening a file that is not regular may wait for a writer. The runtime's
	// poller, to which os.Open would add the file, is of no use here.
	fd, err := open(path)
	if err != nil {
		return nil, wrong(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := regular(fd); err != nil {
		return nil, wrong(err)
	}
	// Most files have a few bytes; a page for each would be most of the garbage of callers that
	// read thousands of them.
	page, _ := pages.Get().(*[first]byte)
	defer pages.Put(page)
	buffer, n := page[:min(limit+1, first)], 0
	for {
		if n == len(buffer) {
			buffer = append(buffer, make([]byte, min(limit+1-n, n))...)
		}
		got, err := retry(func() (int, error) { return unix.Read(fd, buffer[n:]) })
		if err != nil {
			return nil, wrong(err)
		}
		n += got
		switch {
		case n > limit:
			return slices.Clone(buffer[:limit]), wrong(ErrTooLong)
		case got == 0:
			return slices.Clone(buffer[:n]), nil
		}
	}
}

// regular returns an error unless a file is a regular one.
func regular(fd int) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return ErrNotFile
	}
	return nil
}

// Attribute is [Text] for an attribute of sysfs that has less than a page, with three system calls in
// place of five: the kernel returns all of it to one read (Documentation/filesystems/sysfs.rst). It is
// not for procfs.
func Attribute(path string) (string, error) {
	fd, err := open(path)
	if err != nil {
		return "", &fs.PathError{Op: "read", Path: path, Err: err}
	}
	text, err := attribute(fd)
	_ = unix.Close(fd) // nothing was written
	switch {
	case errors.Is(err, errMore):
		return Text(path)
	case err != nil:
		return "", &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return text, nil
}

func open(path string) (fd int, err error) {
	return retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0) })
}

// errMore means that an attribute has a page or more.
var errMore = errors.New("a page or more")

// attribute reads an attribute from its beginning.
func attribute(fd int) (string, error) {
	page, _ := pages.Get().(*[first]byte)
	defer pages.Put(page)
	n, err := retry(func() (int, error) { return unix.Pread(fd, page[:], 0) })
	switch {
	case errors.Is(err, unix.ESPIPE):
		return "", ErrNotFile
	case err != nil:
		return "", err
	case n == len(page):
		return "", errMore
	case n == 0: // a file that is no attribute may have nothing, too
		return "", regular(fd)
	}
	return string(bytes.TrimSpace(page[:n])), nil
}

// retry repeats a call that a signal interrupted.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// Text returns the content of a file of up to [Limit] bytes without the white space around it.
// Errors are those of [Read].
func Text(path string) (string, error) {
	b, err := Read(path, Limit)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(b)), nil
}

// Uint returns the number in a file, which has decimal digits and nothing else. Errors are those
// of [Read], and one for anything but a number of 64 bits.
func Uint(path string) (uint64, error) {
	text, err := Text(path)
	if err != nil {
		return 0, err
	}
	n, err := ParseUint(text)
	if err != nil {
		return 0, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return n, nil
}

// ParseUint parses decimal digits and nothing else: no sign, no underscore, no white space.
func ParseUint(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s has more than 64 bits", Quote(text))
	case err != nil:
		return 0, fmt.Errorf("%s is no number", Quote(text))
	}
	return n, nil
}

// Quote returns text from a file for an error: quoted and shortened.
func Quote(text string) string {
	if len(text) > shown {
		return strconv.Quote(text[:shown]) + "…"
	}
	return strconv.Quote(text)
}
