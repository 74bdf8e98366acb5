package fpga

import (
	"context"
	"fmt"

	"github.com/accelmux/accelmux/backends/sdk"
)

// claim is what a region is to have for containers that start now. Of two that ask for
// different files at once, one is refused: who comes later, so that what the other
// programs stays.
type claim struct {
	name, version string
	// holders are how many calls have it.
	holders int
}

// claim claims the region for a file; joined says that others ask for the same.
func (p *preparation) claim(ctx context.Context, c *claim) (joined bool, err error) {
	other, err := sdk.InLoop(ctx, p.b.asks, func(l *loop) string {
		r := l.roster.region(p.region.ID)
		switch {
		case r == nil || r.claim == nil:
		case r.claim.version != c.version:
			return r.claim.name
		default:
			r.claim.holders++
			joined = true
			return ""
		}
		if r != nil {
			r.claim = &claim{c.name, c.version, 1}
		}
		return ""
	})
	if err == nil && other != "" {
		err = fmt.Errorf("%s was not programmed into %s: another container that starts now asks for %s; "+
			"containers that share a device ask for the same file", p.file, p.name(), other)
	}
	return joined, err
}

// unclaim ends a claim.
func (p *preparation) unclaim(c *claim) {
	p.loop.post(func() {
		r := p.loop.roster.region(p.region.ID)
		if r == nil || r.claim == nil || r.claim.version != c.version {
			return
		}
		if r.claim.holders--; r.claim.holders == 0 {
			r.claim = nil
		}
	})
}
