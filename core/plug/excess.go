package plug

import (
	"fmt"
	"sync"
	"time"

	"github.com/accelmux/accelmux/proto/backendplugin"
)

const (
	// excessMemory is how long a process must stay within its limits for an excess to be
	// cleared.
	excessMemory = time.Minute
	// excessBytes is the number of discarded bytes of a stream in that time that is not yet
	// a problem, such as a library's banner.
	excessBytes = 64 << 10
)

// excess counts what a process sends beyond a limit; the zero value is ready. It is safe
// for concurrent use.
type excess struct {
	mu          sync.Mutex
	since, last time.Time
	count       int64
}

// add counts n; first reports whether nothing was counted within excessMemory.
func (e *excess) add(n int) (first bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if first = e.count == 0 || now.Sub(e.last) > excessMemory; first {
		e.since, e.count = now, 0
	}
	e.last = now
	e.count += int64(n)
	return first
}

// now returns the count and its begin; 0 if nothing was counted within excessMemory.
func (e *excess) now() (count int64, since string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.count == 0 || time.Since(e.last) > excessMemory {
		return 0, ""
	}
	return e.count, e.since.UTC().Format(time.RFC3339)
}

// Problems returns those of a running process: what it sends beyond the limits, and that its program, or a file that belongs
// to it, was replaced.
func (p *Process) Problems() []string {
	var all []string
	if replaced := p.program.Replaced(); replaced != "" {
		all = append(all, replaced)
	}
	if n, since := p.delayed.now(); n > 0 {
		all = append(all, fmt.Sprintf("it sends more updates than the limit of %d a second and %d MiB a second: "+
			"%d updates were delayed since %s; find the devices or problems that change so often, or configure it to report less often",
			backendplugin.MessageRate, backendplugin.MessageRate*backendplugin.MessageBytes>>20, n, since))
	}
	if n, since := p.run.stderr.lost.now(); n > 0 {
		all = append(all, fmt.Sprintf("it logs more than %.0f lines a second: %d lines were dropped since %s; "+
			"fix what it logs, or configure it to log less", p.run.stderr.lines.Limit(), n, since))
	}
	if n, since := p.run.stderr.cut.now(); n > excessBytes {
		all = append(all, fmt.Sprintf("it logs lines of more than %d kB: %d kB of them were cut off since %s; configure it to log shorter lines",
			logLine>>10, n>>10, since))
	}
	if n, since := p.run.stdout.discarded.now(); n > excessBytes {
		all = append(all, fmt.Sprintf("it writes to its standard output, which is not read after the handshake: %d kB were discarded since %s; "+
			"configure it to log to its standard error", n>>10, since))
	}
	return all
}
