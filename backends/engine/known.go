package engine

import (
	"context"
	"slices"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
)

// Do has the loop run f and waits for it, at most until ctx ends. F must not block. Afterwards
// the devices are judged and listed again: f may have changed what [Vendor] depends on.
func (e *Engine) Do(ctx context.Context, f func(Known)) error {
	_, err := sdk.InLoop(ctx, e.asks, func(l *loop) bool {
		f(Known{l})
		l.changed = true
		return true
	})
	return err
}

// Device returns a known device by ID; nil if there is none.
func (k Known) Device(id string) *KnownDevice { return k.loop.roster.device(id) }

// Units returns the known units, by PCI address, then ID.
func (k Known) Units() []*KnownUnit { return k.loop.roster.sorted() }

// Scanned reports whether the last scan of each driver could read it: a device that is not known then does
// not exist.
func (k Known) Scanned() bool {
	return !slices.ContainsFunc(k.loop.sources, func(s *source) bool { return s.last.number == 0 || s.last.Err != nil })
}

// Scan has all drivers scanned soon, as after an event of the kernel.
func (k Known) Scan() { k.loop.scanSoon() }

// ScanNow has all drivers scanned at once, as after an event that must not wait, such as a fault.
func (k Known) ScanNow() {
	now := time.Now()
	for _, s := range k.loop.sources {
		s.scanAt(now)
	}
}

// remember returns the vendor's ability, or one that does nothing.
func (l *loop) remember() Rememberer {
	if r, ok := l.set.Vendor.(Rememberer); ok {
		return r
	}
	return forgetful{}
}

type forgetful struct{}

func (forgetful) Found(*KnownDevice, Device) { /* nothing to remember */ }
func (forgetful) Forget(*KnownDevice)        { /* nothing to forget */ }
