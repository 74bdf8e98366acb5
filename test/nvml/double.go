package nvml

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const maxEvents = 4096

// Double is one built library with a file that drives it. Its methods may be called from several
// goroutines.
type Double struct {
	library, file string

	mu      sync.Mutex
	state   State
	written time.Time
	event   uint64
}

// New drives the library from a file in the directory. Until the first Update
// there is a driver without GPUs. Several doubles may use one built library,
// each in processes of its own.
func New(library, dir string) (*Double, error) {
	d := &Double{
		library: library,
		file:    filepath.Join(dir, "nvml.conf"),
		state:   NewState(),
	}
	return d, d.Update(func(State) {})
}

// Library is the path of the library.
func (d *Double) Library() string { return d.library }

// Env is the environment of a program that is to find the library, by its name
// or by Library's path, and its file.
func (d *Double) Env() []string {
	return []string{
		"LD_LIBRARY_PATH=" + filepath.Dir(d.library),
		"ACCELMUX_NVML_FILE=" + d.file,
	}
}

// Update changes what the library answers, all at once: from the next call on,
// and in calls that wait or hang.
func (d *Double) Update(change func(State)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d.state)
	return d.write(d.state.text())
}

// Event brings an event, like "gpu 2 xid 79" or "gpu 0 type gpu-unavailable":
// to the event sets that wait for such, once. It returns the event's number.
func (d *Double) Event(event string) (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.event++
	d.state[fmt.Sprintf("event.%d", d.event)] = event
	if d.event > maxEvents {
		delete(d.state, fmt.Sprintf("event.%d", d.event-maxEvents))
	}
	return d.event, d.write(d.state.text())
}

// write replaces the file. Its time always grows, so that the library sees
// each version, however fast they follow each other.
func (d *Double) write(text string) error {
	next := d.file + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the file of the NVML double: %w", err)
	}
	now := time.Now()
	if !now.After(d.written) {
		now = d.written.Add(time.Nanosecond)
	}
	d.written = now
	if err := os.Chtimes(next, now, now); err != nil {
		return fmt.Errorf("write the file of the NVML double: %w", err)
	}
	if err := os.Rename(next, d.file); err != nil {
		return fmt.Errorf("write the file of the NVML double: %w", err)
	}
	return nil
}
