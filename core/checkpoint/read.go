package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Read returns the payload that Write put at path. The error is [fs.ErrNotExist]
// if there is no file, and [ErrCorrupt] if it is damaged, of another kind or
// version, not a regular file (a symbolic link is none), or larger than
// [MaxSize]. It never blocks on a pipe or a device at that path.
func Read(path, magic string) ([]byte, error) {
	var payload []byte
	data, err := readRegular(path)
	if err == nil {
		payload, err = parse(data, magic)
	}
	if errors.Is(err, ErrCorrupt) {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read state file: %w", err) // it names the path
	}
	return payload, nil
}

// readRegular reads a regular file. Anything else is not opened; what replaces the file
// before it is opened is neither followed, if it is a link, nor waited for.
func readRegular(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if err := checkRegular(info); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read, so no write can fail
	if info, err = f.Stat(); err != nil {
		return nil, err
	}
	if err := checkRegular(info); err != nil {
		return nil, err
	}
	var data bytes.Buffer
	data.Grow(int(info.Size()) + bytes.MinRead)
	if _, err := data.ReadFrom(io.LimitReader(f, MaxSize+1)); err != nil {
		return nil, err
	}
	return data.Bytes(), nil
}

func checkRegular(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: not a regular file", ErrCorrupt)
	}
	if info.Size() > MaxSize {
		return fmt.Errorf("%w: larger than %d bytes", ErrCorrupt, MaxSize)
	}
	return nil
}

func parse(data []byte, magic string) ([]byte, error) {
	if len(data) > MaxSize { // it grew while it was read
		return nil, fmt.Errorf("%w: larger than %d bytes", ErrCorrupt, MaxSize)
	}
	line, payload, ok := bytes.Cut(data, []byte("\n"))
	found, _, _ := bytes.Cut(line, []byte(" "))
	kind, version, _ := strings.Cut(magic, "/")
	foundKind, foundVersion, _ := bytes.Cut(found, []byte("/"))
	if !ok || string(foundKind) != kind {
		return nil, fmt.Errorf("%w: it does not start with the header of %s", ErrCorrupt, magic)
	}
	if string(foundVersion) != version {
		return nil, fmt.Errorf("%w: %w: it has %.20q; this program reads only %q", ErrCorrupt, ErrVersion, foundVersion, version)
	}
	if !bytes.Equal(data[:len(line)+1], header(magic, payload)) {
		return nil, fmt.Errorf("%w: its content does not match its checksum", ErrCorrupt)
	}
	return payload, nil
}
