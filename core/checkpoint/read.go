package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
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
	if errors.Is(err, ErrIrregular) {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if errors.Is(err, ErrCorrupt) {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read state file: %w", err) // it names the path
	}
	return payload, nil
}

// readRegular reads a regular file.
func readRegular(path string) ([]byte, error) {
	f, err := Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read, so no write can fail
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > MaxSize {
		return nil, fmt.Errorf("%w: larger than %d bytes", ErrCorrupt, MaxSize)
	}
	var data bytes.Buffer
	data.Grow(int(info.Size()) + bytes.MinRead)
	if _, err := data.ReadFrom(io.LimitReader(f, MaxSize+1)); err != nil {
		return nil, err
	}
	return data.Bytes(), nil
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
