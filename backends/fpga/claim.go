package fpga

import (
	"context"
	"fmt"
	"time"

	"github.com/accelmux/accelmux/backends/engine"
)

// unclaimLimit bounds the wait for a loop that has ended.
const unclaimLimit = 5 * time.Second

// claim claims the region for a file; joined: others ask for the same one.
func (p *preparation) claim(ctx context.Context, c claim) (joined bool, err error) {
	other := ""
	err = p.b.Do(ctx, func(known engine.Known) {
		d := known.Device(p.region.ID)
		if d == nil {
			return
		}
		m := memoryOf(d)
		c.holders = 1
		switch {
		case m.claim == nil:
		case m.claim.version != c.version:
			other = m.claim.name
			return
		default:
			c.holders += m.claim.holders
			joined = true
		}
		m.claim = &c
		d.Memory = m
	})
	if err == nil && other != "" {
		err = fmt.Errorf("%s was not programmed into %s: another container that starts now asks for %s; "+
			"containers that share a device ask for the same file", p.file, p.Device.Name, other)
	}
	return joined, err
}

// unclaim ends a claim. It is called after the call may have ended.
func (p *preparation) unclaim(ctx context.Context, c claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unclaimLimit)
	defer cancel()
	// An error means that the loop has ended, and with it all claims.
	_ = p.b.Do(ctx, func(known engine.Known) {
		d := known.Device(p.region.ID)
		if d == nil {
			return
		}
		m := memoryOf(d)
		if m.claim == nil || m.claim.version != c.version {
			return
		}
		left := *m.claim
		left.holders--
		if m.claim = &left; left.holders == 0 {
			m.claim = nil
		}
		d.Memory = m
	})
}
