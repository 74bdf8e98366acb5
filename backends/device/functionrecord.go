package device

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/device/description"
	"github.com/accelmux/accelmux/backends/made"
)

// functionRecord has the functions that Prepare made, each with its holder. Virtual functions do not outlive
// the kernel, so there is a file for each boot.
type functionRecord struct {
	*made.Record
	path string
}

// functionRecord returns the record for the settings; nil if they have no kind with functions. There is one of a
// file in a process.
func (b *Backend) functionRecord(cfg *config) (*functionRecord, error) {
	if !slices.ContainsFunc(cfg.kinds, func(k *description.Compiled) bool { return k.Functions != nil }) {
		return b.functionsMade(), nil
	}
	records := b.recordsOf(cfg)
	boot, err := records.boot()
	if err != nil {
		return nil, err
	}
	const name = ".functions-" // an ID does not begin with a dot
	at := filepath.Join(records.dir, name+boot)
	if now := b.functionsMade(); now != nil && now.path == at {
		return now, nil
	}
	if err := os.MkdirAll(records.dir, 0o700); err != nil {
		return nil, err
	}
	all, err := filepath.Glob(filepath.Join(records.dir, name+"*"))
	if err != nil {
		return nil, err
	}
	for _, other := range all {
		if other != at {
			_ = os.Remove(other) // of another boot: never read again
		}
	}
	r, err := made.Open(at)
	return &functionRecord{r, at}, err
}

func (b *Backend) functionsMade() *functionRecord {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.made
}

// madeFunction is a function in the record.
type madeFunction struct {
	// physical is the address of the physical function, number is [function.number], and id that of the device.
	physical string
	number   int
	id       string
}

// key is the text of a function in the record.
func (m madeFunction) key() string { return fmt.Sprintf("%s/%d/%s", m.physical, m.number, m.id) }

func parseMade(key string) (m madeFunction) {
	var number string
	m.physical, key, _ = strings.Cut(key, "/")
	number, m.id, _ = strings.Cut(key, "/")
	m.number, _ = strconv.Atoi(number)
	return m
}

// of returns the holders of the functions of a physical one, by number.
func (r *functionRecord) of(physical string) map[int]string {
	all := map[int]string{}
	for key, holder := range r.Devices() {
		if m := parseMade(key); m.physical == physical {
			all[m.number] = holder
		}
	}
	return all
}

// madeFor returns the function that was made as a device for a holder.
func (r *functionRecord) madeFor(holder, id string) (m madeFunction, ok bool) {
	if r == nil {
		return m, false
	}
	for key, of := range r.Devices() {
		if m = parseMade(key); of == holder && m.id == id {
			return m, true
		}
	}
	return madeFunction{}, false
}
