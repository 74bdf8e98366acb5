package nvml

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	maxEvents = 4096
	callsPoll = 2 * time.Millisecond
)

// Double is one built library with a file that drives it and a log of the
// calls it got. Its methods may be called from several goroutines.
type Double struct {
	library, file, calls string

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
		calls:   filepath.Join(dir, "nvml.calls"),
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
		"ACCELMUX_NVML_CALLS=" + d.calls,
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

// What a call does that is logged before it answers: it hangs because the file
// says so, or waits for an event.
const (
	Hangs = "HANGS"
	Waits = "WAITS"
)

// Call is a call that the library got.
type Call struct {
	Function string // with its version: nvmlInit_v2
	Device   string // "gpu.3", "gpu.3.mig.1", or "-" where it is about none
	Outcome  string // "SUCCESS", the error's name, or Hangs or Waits
	Time     time.Time
}

// Calls is every call that was logged so far, in order.
func (d *Double) Calls() ([]Call, error) {
	text, err := os.ReadFile(d.calls)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the calls of the NVML double: %w", err)
	}
	var calls []Call
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) != 4 {
			continue
		}
		if at, err := strconv.ParseInt(words[3], 10, 64); err == nil {
			calls = append(calls, Call{Function: words[0], Device: words[1], Outcome: words[2], Time: time.Unix(0, at)})
		}
	}
	return calls, nil
}

// Told is for each of some times when the library told the first event after it to a
// program that waits for events; the zero time if it did not. It needs the log of calls.
func (d *Double) Told(after []time.Time) ([]time.Time, error) {
	calls, err := d.Calls()
	if err != nil {
		return nil, err
	}
	calls = slices.DeleteFunc(calls, func(c Call) bool { return c.Function != "nvmlEventSetWait_v2" || c.Outcome != "SUCCESS" })
	told := make([]time.Time, len(after))
	for i, t := range after {
		t = t.Round(0) // the log has no monotonic clock
		if at := slices.IndexFunc(calls, func(c Call) bool { return c.Time.After(t) }); at >= 0 {
			told[i] = calls[at].Time
		}
	}
	return told, nil
}

// Await waits until the calls logged so far are as the test says.
func (d *Double) Await(ctx context.Context, are func([]Call) bool) error {
	poll := time.NewTicker(callsPoll)
	defer poll.Stop()
	for {
		calls, err := d.Calls()
		if err != nil || are(calls) {
			return err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for calls of the NVML double, after %d of them: %w", len(calls), ctx.Err())
		}
	}
}
