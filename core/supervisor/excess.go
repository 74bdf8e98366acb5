package supervisor

import (
	"fmt"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/sandbox"
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

// problems returns those of a running process: what it sends beyond the limits, and that
// its program file was replaced.
func (i *instance) problems() []string {
	i.mu.Lock()
	p := i.process
	i.mu.Unlock()
	var all []string
	if i.spec.Sandbox.Mode == sandbox.Off {
		all = append(all, "sandbox.mode is off: its process has all rights of the agent; remove it from the configuration when it is no longer needed")
	}
	if missing := i.rights.missing; !missing.Empty() {
		all = append(all, "its manifest lists for the process what the configuration does not give it, and it runs without: check that it may have that, and write "+
			"allow: {declared: accept}, or allow: {process: "+missing.YAML()+"}")
	}
	if replaced := i.program.Replaced(); replaced != "" {
		all = append(all, replaced)
	}
	if n, since := i.delayed.now(); n > 0 {
		all = append(all, fmt.Sprintf("it sends more updates than the limit of %d a second and %d MiB a second: "+
			"%d updates were delayed since %s; find the devices or problems that change so often, or configure it to report less often",
			backendplugin.MessageRate, backendplugin.MessageRate*backendplugin.MessageBytes>>20, n, since))
	}
	if p == nil {
		return all
	}
	if n, since := p.stderr.lost.now(); n > 0 {
		all = append(all, fmt.Sprintf("it logs more than %.0f lines a second: %d lines were dropped since %s; "+
			"fix what it logs, or configure it to log less", p.stderr.lines.Limit(), n, since))
	}
	if n, since := p.stderr.cut.now(); n > excessBytes {
		all = append(all, fmt.Sprintf("it logs lines of more than %d kB: %d kB of them were cut off since %s; configure it to log shorter lines",
			logLine>>10, n>>10, since))
	}
	if n, since := p.stdout.discarded.now(); n > excessBytes {
		all = append(all, fmt.Sprintf("it writes to its standard output, which is not read after the handshake: %d kB were discarded since %s; "+
			"configure it to log to its standard error", n>>10, since))
	}
	return all
}
