package ras

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

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

// Reader reads the counters of one card, again and again. It can be used
// concurrently.
type Reader struct {
	dir      string
	skipXGMI bool
	number   func(path string) (uint64, error) // sysfs.Uint

	mu   sync.Mutex
	xgmi Count // seen so far
}

// Option changes what a [Reader] reads.
type Option func(*Reader)

// WithoutXGMI leaves xgmi_error alone: reading it clears the driver's number, for
// other readers too, and cards whose links count nothing write a line to the
// kernel's log each time. Errors of the links are also in the block "xgmi_wafl".
func WithoutXGMI() Option { return func(r *Reader) { r.skipXGMI = true } }

// NewReader reads the card whose PCI function has this directory, such as
// /sys/bus/pci/devices/0000:c1:00.0.
func NewReader(dir string, options ...Option) *Reader {
	r := &Reader{dir: dir, number: sysfs.Uint}
	for _, option := range options {
		option(r)
	}
	return r
}

// Read reads all counters. What is missing or cannot be read is unknown; the error
// joins one for each file that is there but cannot be read, or makes no sense, and
// comes with the counters that could be. It is fs.ErrNotExist alone if the card is
// gone.
func (r *Reader) Read() (Counters, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, failed := r.readBlocks()
	var err error
	if c.Pages, err = r.readPages(); err != nil {
		failed = append(failed, err)
	}
	if c.PCIeReplays, err = r.readCount("pcie_replay_count"); err != nil {
		failed = append(failed, err)
	}
	if c.XGMI, err = r.readXGMI(); err != nil {
		failed = append(failed, err)
	}
	if c.unknown() {
		if _, err := os.Stat(r.dir); errors.Is(err, fs.ErrNotExist) {
			return Counters{}, fmt.Errorf("error counters: the card is gone: %w", err)
		}
	}
	return c, errors.Join(failed...)
}

func (c Counters) unknown() bool {
	return len(c.Blocks) == 0 && !c.Pages.Known && !c.PCIeReplays.Known
}

func (r *Reader) readBlocks() (Counters, []error) {
	c := Counters{Blocks: map[string]Errors{}}
	names, err := blocks(filepath.Join(r.dir, "ras"))
	if err != nil {
		return c, []error{fmt.Errorf("error counters: %w", err)}
	}
	var failed []error
	for _, name := range names {
		path := filepath.Join(r.dir, "ras", name+suffix)
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

// blocks are the blocks that count errors. None, if there is no such directory, is
// no error: cards without error correction have none.
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

func (r *Reader) readPages() (Pages, error) {
	path := filepath.Join(r.dir, "ras", "gpu_vram_bad_pages")
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

// readCount reads a file with one number. Cards that cannot count have the file all
// the same, and the driver then says EINVAL (xgmi_error since MI300).
func (r *Reader) readCount(file string) (Count, error) {
	n, err := r.number(filepath.Join(r.dir, file))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		return Count{}, nil
	case err != nil:
		return Count{}, fmt.Errorf("error counters: %w", err)
	}
	return Count{N: n, Known: true}, nil
}

// readXGMI adds what came since the last time. What was seen stays known if the
// file cannot be read now.
func (r *Reader) readXGMI() (Count, error) {
	if r.skipXGMI {
		return Count{}, nil
	}
	since, err := r.readCount("xgmi_error")
	if since.Known {
		r.xgmi = Count{N: add(r.xgmi.N, since.N), Known: true}
	}
	return r.xgmi, err
}
