package agent

import (
	"bytes"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/supervisor"
)

// plans is the change from one plan to another without a gap:
//
//	          file changed               new backends delivered
//	in force ──────────────► starting ───────────────────────────► reconfiguring
//	    ▲                    new backends run beside the old ones,   │ backends of both plans
//	    │                    the old resources are served            │ take on their new settings,
//	    │                                                            │ nothing is published
//	    └────────────────────────────────────────────────────────────┘
//	        each has delivered or refused: old backends stop, the new resources are served
//
// A new backend that fails delays the switch only where an old one would have to
// stop for it: what runs is not given up for what does not. Resources and the
// inventories that they are made of change in one round, so that a selector and
// an attribute may change together. A third configuration takes the place of the
// second in the first stage; in the second stage it waits for its turn, as then
// the backends go by the second one's settings already.
type plans struct {
	mu      sync.Mutex
	current *plan
	next    *plan
	// queued is what is proposed while next is in its second stage, and
	// queuedLimit how long it may start.
	queued      *plan
	queuedLimit time.Duration
	stage       stage
	// deadline ends the stage.
	deadline time.Time
	// waits says what the switch waits for, for status.
	waits string
	// stuck says that only a backend that does not run can end the wait, and told
	// that this was told of this switch.
	stuck, told bool
	// refused says why the newest configuration is not taken on, for status.
	refused string
	applied time.Time
}

// stage is how far a switch is.
type stage int

const (
	inForce stage = iota
	starting
	reconfiguring
)

// reconfigureLimit is how long the second stage may take: longer than a backend
// may take for Configure and for the inventory that follows.
const reconfigureLimit = 15 * time.Second

// start puts the first plan in force.
func (p *plans) start(first *plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current, p.applied = first, time.Now()
}

// propose makes a plan the one to switch to, at once or when a switch that has
// gone too far for it is over. limit is how long its backends may start.
func (p *plans) propose(next *plan, limit time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stage == reconfiguring {
		p.queued, p.queuedLimit = next, limit
		return
	}
	p.begin(next, time.Now().Add(limit))
}

// begin enters the first stage. The caller holds p.mu.
func (p *plans) begin(next *plan, deadline time.Time) {
	p.next, p.queued, p.stage, p.waits, p.deadline = next, nil, starting, "", deadline
	p.stuck, p.told = false, false
}

// explain reports whether the profile that is in force, or is on its way to that,
// is the one of next: then it only gets the newest reason.
func (p *plans) explain(next *plan) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	target := &p.current
	switch {
	case p.queued != nil:
		target = &p.queued
	case p.next != nil:
		target = &p.next
	}
	if (*target).profile != next.profile {
		return false
	}
	explained := **target
	explained.reason = next.reason
	*target = &explained
	return true
}

// refuse notes why the newest configuration is not taken on; nil that it is. A
// switch that is going on goes on.
func (p *plans) refuse(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = ""
	if err != nil {
		p.refused = err.Error()
	}
}

// inForce is the plan in force.
func (p *plans) inForce() *plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

// idle reports whether nothing runs and no plan is being put in force.
func (p *plans) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next == nil && (p.current == nil || p.current.idle())
}

// advance takes the switch a step further if it can go on: moved says that it
// did, and that specs may be others than before. retry is when to ask again even
// if nothing changes; zero if there is no switch.
func (p *plans) advance(statuses map[string]supervisor.Status, now time.Time) (moved bool, retry time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.stage {
	case starting:
		p.waits, p.stuck = p.startBlocked(statuses, now)
		if p.waits == "" {
			p.stage, p.deadline = reconfiguring, now.Add(reconfigureLimit)
			return true, p.deadline
		}
	case reconfiguring:
		p.waits = p.reconfigureBlocked(statuses, now)
		if p.waits == "" {
			p.current, p.next, p.stage, p.applied = p.next, nil, inForce, now
			if p.queued != nil {
				p.begin(p.queued, now.Add(p.queuedLimit))
			}
			return true, time.Time{}
		}
	default:
		return false, time.Time{}
	}
	if now.Before(p.deadline) {
		return false, p.deadline
	}
	return false, time.Time{} // only a backend can end this
}

// stuckNow says once of a switch why it can't go on; "" if it can, or that was said.
func (p *plans) stuckNow() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stuck || p.told {
		return ""
	}
	p.told = true
	return p.waits
}

// startBlocked says what the first stage waits for; "" if for nothing. It is stuck
// if what it waits for does not work, or is overdue.
func (p *plans) startBlocked(statuses map[string]supervisor.Status, now time.Time) (waits string, stuck bool) {
	if p.current.idle() {
		return "", false // nothing can be lost
	}
	stops := p.stopped()
	for _, b := range p.next.profile.Backends {
		status := statuses[b.Name]
		switch {
		case p.current.backend(b.Name) != nil, status.Settled:
		case !status.Failed && now.Before(p.deadline):
			return fmt.Sprintf("the switch to the new configuration waits for the first inventory of backend %s", b.Name), false
		case stops != "":
			return fmt.Sprintf("the switch to the new configuration would stop backend %s, but backend %s does not run: %s",
				stops, b.Name, orUnknown(status.LastError)), true
		}
	}
	return "", false
}

// reconfigureBlocked says what the second stage waits for; "" if for nothing.
func (p *plans) reconfigureBlocked(statuses map[string]supervisor.Status, now time.Time) string {
	for i := range p.next.profile.Backends {
		b := &p.next.profile.Backends[i]
		before, status := p.current.backend(b.Name), statuses[b.Name]
		if before == nil || sameProgram(before, b) {
			continue // it has delivered already, or goes on as before
		}
		if !status.Settled && !status.Failed && now.Before(p.deadline) {
			return fmt.Sprintf("the switch to the new configuration waits for backend %s to take on its new settings", b.Name)
		}
	}
	return ""
}

// sameProgram reports whether the backend's process need not take on anything.
func sameProgram(a, b *config.Backend) bool {
	return a.Command == b.Command && maps.Equal(a.Env, b.Env) && bytes.Equal(a.Settings, b.Settings) && a.Heartbeat == b.Heartbeat
}

// held reports whether nothing may be published: inventories change while the
// resources do not yet.
func (p *plans) held() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stage == reconfiguring
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

// specs is what must run now. While switching, that is the backends of both
// plans; those that both have get their new settings in the second stage.
func (p *plans) specs() []supervisor.Spec {
	p.mu.Lock()
	defer p.mu.Unlock()
	first, second := p.current, p.next
	if p.stage == reconfiguring {
		first, second = p.next, p.current
	}
	specs := first.specs()
	if second != nil {
		for _, spec := range second.specs() {
			if first.backend(spec.Name) == nil {
				specs = append(specs, spec)
			}
		}
	}
	return specs
}

// backend is the configuration by which a backend runs or is started, or nil.
func (p *plans) backend(name string) *config.Backend {
	p.mu.Lock()
	defer p.mu.Unlock()
	first, second := p.current, p.next
	if p.stage == reconfiguring {
		first, second = p.next, p.current
	}
	if b := first.backend(name); b != nil || second == nil {
		return b
	}
	return second.backend(name)
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
