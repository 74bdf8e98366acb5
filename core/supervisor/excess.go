package supervisor

import (
	"fmt"
	"sync"
	"time"

	"github.com/accelmux/accelmux/proto/backendplugin"
)

const (
	// excessMemory is how long a process must keep within its bounds for what it sent
	// beyond them to be over.
	excessMemory = time.Minute
	// excessBytes is how much of a stream may be thrown away in that time without being
	// worth a sentence: a library's banner is not.
	excessBytes = 64 << 10
)

// excess counts what a process sends beyond what is taken; the zero value is ready. It
// is safe for concurrent use.
type excess struct {
	mu          sync.Mutex
	since, last time.Time
	count       int64
}

// add counts; first says that nothing was counted for as long as is remembered.
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

// now is what was counted, and since when; nothing if that is over.
func (e *excess) now() (count int64, since string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.count == 0 || time.Since(e.last) > excessMemory {
		return 0, ""
	}
	return e.count, e.since.UTC().Format(time.RFC3339)
}

// remarks are sentences about a process that runs: what it does too much of now, and is
// slowed down, or not listened to, for; and that its program is another one by now.
func (i *instance) remarks() []string {
	i.mu.Lock()
	p, program := i.process, i.program
	i.mu.Unlock()
	var said []string
	if program != nil {
		if replaced := program.replaced(); replaced != "" {
			said = append(said, replaced)
		}
	}
	if n, since := i.hasty.now(); n > 0 {
		said = append(said, fmt.Sprintf("it sends more updates than are taken (%d a second, and %d MiB a second): it is slowed down, "+
			"and %d updates came late since %s; see which devices or problems change so often, or let it report less often",
			backendplugin.MessageRate, backendplugin.MessageRate*backendplugin.MessageBytes>>20, n, since))
	}
	if p == nil {
		return said
	}
	if n, since := p.stderr.lost.now(); n > 0 {
		said = append(said, fmt.Sprintf("it logs more than %.0f lines a second: %d lines were dropped since %s; "+
			"mend what it complains about, or let it log less", p.stderr.lines.Limit(), n, since))
	}
	if n, since := p.stderr.cut.now(); n > excessBytes {
		said = append(said, fmt.Sprintf("it logs lines of more than %d kB: %d kB of them were cut off since %s; let it log shorter lines",
			logLine>>10, n>>10, since))
	}
	if n, since := p.stdout.thrown.now(); n > excessBytes {
		said = append(said, fmt.Sprintf("it writes to its standard output, which nobody reads after the handshake: %d kB were thrown away since %s; "+
			"let it log to its standard error", n>>10, since))
	}
	return said
}
