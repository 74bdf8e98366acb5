package ras

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/sysfs"
)

const (
	// maxBlocks bounds the files that are read of a card; drivers have about 20.
	maxBlocks = 64
	// maxPages bounds the list of pages, in bytes: about 9,700 pages.
	maxPages = 256 << 10
	suffix   = "_err_count"
)

// Read reads all counters of the card whose PCI function has this directory, such as
// /sys/bus/pci/devices/0000:c1:00.0. Counters that are missing or cannot be read are unknown.
// The error joins one for each file that is there but cannot be read, or is malformed, and
// comes with the other counters. It is fs.ErrNotExist alone if the card is gone.
//
// Without links, xgmi_error is not read: reading it clears the driver's number, for other
// readers too, and cards whose links count nothing write a line to the kernel log each time.
// Errors of the links are also in the block "xgmi_wafl".
func Read(dir string, links bool) (Counters, error) { return read(dir, links, sysfs.Uint) }

// read is Read; number is sysfs.Uint, except in tests.
func read(dir string, links bool, number func(string) (uint64, error)) (Counters, error) {
	c, failed := readBlocks(dir)
	var err error
	if c.Pages, err = readPages(dir); err != nil {
		failed = append(failed, err)
	}
	if links {
		if c.XGMI, err = readXGMI(dir, number); err != nil {
			failed = append(failed, err)
		}
	}
	if len(c.Blocks) == 0 && !c.Pages.Known {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return Counters{}, fmt.Errorf("error counters: the card is gone: %w", err)
		}
	}
	return c, errors.Join(failed...)
}

func readBlocks(dir string) (Counters, []error) {
	c := Counters{Blocks: map[string]Errors{}}
	names, err := blocks(filepath.Join(dir, "ras"))
	if err != nil {
		return c, []error{fmt.Errorf("error counters: %w", err)}
	}
	var failed []error
	for _, name := range names {
		path := filepath.Join(dir, "ras", name+suffix)
		text, err := sysfs.Text(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var e Errors
		if err == nil {
			if e, err = parseErrors(text); err != nil {
				err = &fs.PathError{Op: "read", Path: path, Err: err}
			}
		}
		switch {
		case errors.Is(err, errBusy):
			c.Busy = true
		case err != nil:
			failed = append(failed, fmt.Errorf("error counters of %s: %w", name, err))
		default:
			c.Blocks[name] = e
		}
	}
	return c, failed
}

// blocks returns the blocks that count errors. Cards without error correction have no such
// directory, and no blocks.
func blocks(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }() // only read: nothing can be lost
	entries, err := d.Readdirnames(-1)
	if err != nil && len(entries) == 0 {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry, suffix); ok && name != "" {
			names = append(names, name)
		}
	}
	if len(names) > maxBlocks {
		return nil, fmt.Errorf("%s: %d blocks, more than any card has", dir, len(names))
	}
	return names, nil
}

func readPages(dir string) (Pages, error) {
	path := filepath.Join(dir, "ras", "gpu_vram_bad_pages")
	text, err := sysfs.Read(path, maxPages)
	cut := errors.Is(err, sysfs.ErrTooLong)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Pages{}, nil
	case err != nil && !cut:
		return Pages{}, fmt.Errorf("retired pages: %w", err)
	}
	pages, err := parsePages(string(text), cut)
	if err != nil {
		return Pages{}, fmt.Errorf("retired pages: %w", &fs.PathError{Op: "read", Path: path, Err: err})
	}
	return pages, nil
}

// readXGMI reads the errors since the last read. Cards that cannot count them have the file all
// the same, and the driver returns EINVAL (since MI300).
func readXGMI(dir string, number func(string) (uint64, error)) (Count, error) {
	n, err := number(filepath.Join(dir, "xgmi_error"))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		return Count{}, nil
	case err != nil:
		return Count{}, fmt.Errorf("error counters: %w", err)
	}
	return Count{N: n, Known: true}, nil
}
