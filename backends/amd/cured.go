package amd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/accelmux/accelmux/backends/made"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// cured has the uncorrectable errors of each GPU that resets have cured: the driver goes on counting over a reset. Its
// file outlives this process, and its entries, "<boot> <errors>" by GPU, count until the next boot, after which the
// driver counts from 0. It is safe for concurrent use, and only save waits for the disk.
type cured struct {
	file, boot string
	record     *made.Record
	err        error // why earlier processes' entries are not known, and none is stored

	mu     sync.Mutex
	errors map[string]uint64
	// unsaved are the GPUs whose entry is not in the file yet.
	unsaved map[string]bool
}

func openCured(file, procfs string) *cured {
	c := &cured{file: file, errors: map[string]uint64{}, unsaved: map[string]bool{}}
	var err error
	c.boot, c.err = sysfs.Text(filepath.Join(procfs, "sys", "kernel", "random", "boot_id"))
	c.record, err = made.Open(file)
	if c.err = errors.Join(c.err, err); c.err != nil {
		return c
	}
	for id, entry := range c.record.Devices() {
		boot, number, _ := strings.Cut(entry, " ")
		if n, err := strconv.ParseUint(number, 10, 64); err == nil && boot == c.boot {
			c.errors[id] = n
		}
	}
	return c
}

// of returns the errors of a GPU that resets have cured.
func (c *cured) of(id string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.errors[id]
}

// set changes them. The next save stores them.
func (c *cured) set(id string, n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.errors[id] != n {
		c.errors[id], c.unsaved[id] = n, true
	}
}

// save stores what was set. The error is for users.
func (c *cured) save(context.Context) error {
	err := c.err
	if err == nil {
		err = c.store()
	}
	if err != nil {
		return fmt.Errorf("the errors that resets have cured cannot be stored in %s, so GPUs are unhealthy for them after a restart of the backend: %w", c.file, err)
	}
	return nil
}

func (c *cured) store() error {
	c.mu.Lock()
	unsaved := map[string]uint64{}
	for id := range c.unsaved {
		unsaved[id] = c.errors[id]
	}
	c.mu.Unlock()
	for id, n := range unsaved {
		if err := c.record.Put(id, fmt.Sprintf("%s %d", c.boot, n)); err != nil {
			return err
		}
		c.mu.Lock()
		if c.errors[id] == n {
			delete(c.unsaved, id)
		}
		c.mu.Unlock()
	}
	return nil
}
