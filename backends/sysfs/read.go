package sysfs

import (
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
	// Limit is how much of a file is read by [Text] and [Uint]: sysfs gives a page
	// (4 KiB, 64 KiB on some machines) for most files.
	Limit = 64 << 10
	// first is the buffer that most files fit into.
	first = 4096
	// shown is how much of a file is quoted in an error.
	shown = 40
)

var (
	// ErrTooLong means that a file is longer than what its reader takes.
	ErrTooLong = errors.New("longer than can be")
	// ErrNotFile means that something is not a regular file.
	ErrNotFile = errors.New("not a regular file")
)

// pages are buffers that nobody uses.
var pages = sync.Pool{New: func() any { return new([first]byte) }}

// Read is the content of a file, up to limit bytes. A longer file gives its first
// limit bytes and ErrTooLong. Other errors are [fs.PathError], such as
// fs.ErrNotExist, ErrNotFile, or ENODEV for a device whose driver has let it go.
// It can be used concurrently.
func Read(path string, limit int) ([]byte, error) {
	wrong := func(err error) error { return &fs.PathError{Op: "read", Path: path, Err: err} }
	// Not blocking, for what is no regular file may wait for a writer when opened.
	// The runtime's poller, which os.Open would enter the file in, has no use here.
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0) })
	if err != nil {
		return nil, wrong(err)
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, wrong(err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, wrong(ErrNotFile)
	}
	// Most files have some bytes; a page for each would be most of what readers of
	// thousands of them leave for the collector.
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

// retry repeats what a signal has interrupted.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// Text is the content of a file of up to [Limit] bytes without the white space
// around it. Errors are those of [Read].
func Text(path string) (string, error) {
	b, err := Read(path, Limit)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(b)), nil
}

// Uint is the number that a file holds, in decimal digits and nothing else. Errors
// are those of [Read], and one for anything that is no number of 64 bits.
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

// ParseUint reads decimal digits and nothing else: no sign, no underscore, no
// white space.
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

// Quote is text from a file, as an error shows it: quoted, and not much of it.
func Quote(text string) string {
	if len(text) > shown {
		return strconv.Quote(text[:shown]) + "…"
	}
	return strconv.Quote(text)
}
