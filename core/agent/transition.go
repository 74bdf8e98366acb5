package agent

import (
	"fmt"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/supervisor"
)

// plans is the change from one plan to another without a gap:
//
//	          file changed              backends delivered,
//	in force ──────────────► switching ─────────────────────► in force (new)
//	    ▲   new backends start beside     old ones stop            │
//	    └──────────────────── refused: stays ◄─────────────────────┘
//
// While switching, the old plan's resources are served from the old backends. A
// new backend that fails delays the switch only where an old one would have to
// stop for it: what runs is not given up for what does not.
type plans struct {
	mu       sync.Mutex
	current  *plan
	next     *plan
	deadline time.Time
	// waits says what the switch waits for, for status.
	waits string
	// refused says why the newest configuration is not taken on, for status.
	refused string
	applied time.Time
}

// start puts the first plan in force.
func (p *plans) start(first *plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current, p.applied = first, time.Now()
}

// propose makes a plan the one to switch to.
func (p *plans) propose(next *plan, limit time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next, p.refused, p.waits = next, "", ""
	p.deadline = time.Now().Add(limit)
}

// refuse notes why the newest configuration is not taken on. A switch that is
// going on goes on.
func (p *plans) refuse(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = err.Error()
}

// inForce is the plan in force.
func (p *plans) inForce() *plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

// advance ends the switch if it can end, and returns the plan in force.
// switched says that it is another one than before. retry is when to ask again
// even if nothing changes; zero if there is no switch.
func (p *plans) advance(statuses map[string]supervisor.Status, now time.Time) (current *plan, switched bool, retry time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == nil {
		return p.current, false, time.Time{}
	}
	p.waits = p.blockedBy(statuses, now)
	if p.waits != "" {
		return p.current, false, p.deadline
	}
	p.current, p.next, p.applied = p.next, nil, now
	return p.current, true, time.Time{}
}

// blockedBy says what the switch waits for; "" if for nothing.
func (p *plans) blockedBy(statuses map[string]supervisor.Status, now time.Time) string {
	stops := p.stopped()
	for _, b := range p.next.profile.Backends {
		status := statuses[b.Name]
		switch {
		case status.Settled:
		case !status.Failed && now.Before(p.deadline):
			return fmt.Sprintf("the switch to the new configuration waits for the first inventory of backend %s", b.Name)
		case stops != "":
			return fmt.Sprintf("the switch to the new configuration would stop backend %s, but backend %s does not run: %s",
				stops, b.Name, orUnknown(status.LastError))
		}
	}
	return ""
}

// stopped is the first backend that the switch would stop, "" if none.
func (p *plans) stopped() string {
	for _, b := range p.current.profile.Backends {
		if p.next.backend(b.Name) == nil {
			return b.Name
		}
	}
	return ""
}

// specs is what must run now: while switching, the backends of both plans; where
// both have one of a name, the new one's.
func (p *plans) specs() []supervisor.Spec {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == nil {
		return p.current.specs()
	}
	specs := p.next.specs()
	for _, spec := range p.current.specs() {
		if p.next.backend(spec.Name) == nil {
			specs = append(specs, spec)
		}
	}
	return specs
}

// backend is the newest configuration of a backend, or nil.
func (p *plans) backend(name string) *config.Backend {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next != nil {
		if b := p.next.backend(name); b != nil {
			return b
		}
	}
	return p.current.backend(name)
}

// notes are what status says of the configuration.
func (p *plans) notes() (current *plan, applied time.Time, waits, refused string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current, p.applied, p.waits, p.refused
}

func orUnknown(text string) string {
	if text == "" {
		return "it has not started yet"
	}
	return text
}
