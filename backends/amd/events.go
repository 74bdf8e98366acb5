package amd

import (
	"context"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/accelmux/accelmux/backends/amd/smi"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
)

// concerns reports whether an event of the kernel is about an AMD GPU, a partition or
// the driver.
func concerns(e uevent.Event) bool {
	switch e.Subsystem {
	case "module":
		return e.DevPath == "/module/amdgpu"
	case "pci":
		class, err := strconv.ParseUint(e.Properties["PCI_CLASS"], 16, 32)
		return err == nil && (class>>16 == 0x03 || class>>16 == 0x12) && strings.HasPrefix(e.Properties["PCI_ID"], "1002:")
	case "drm":
		// "change" comes with every monitor.
		_, wedged := e.Properties["WEDGED"]
		return wedged || e.Action != uevent.Change
	case "kfd", "kfd_topology":
		return true
	}
	return false
}

// Uevent implements [engine.EventReader]. The driver reports that it gave up a card, or that
// it had to reset it.
func (v vendor) Uevent(e uevent.Event, known engine.Known) {
	methods, wedged := e.Properties["WEDGED"]
	if !wedged {
		return
	}
	at := function(e.DevPath)
	units := known.Units()
	i := slices.IndexFunc(units, func(u *engine.KnownUnit) bool { return u.Unit.PCI.Address == at })
	if i < 0 {
		return // another vendor's, or one that is not listed
	}
	fault := wedge(methods)
	if fault == nil {
		v.log.Info("the driver recovered a GPU", "device", units[i].Unit.ID)
		return
	}
	m := memoryOf(units[i])
	m.wedged = sdk.Graver(m.wedged, fault)
}

// wedge returns the fault of a card for which the driver reports by a uevent how it can be
// recovered: WEDGED=<method>[,<method> …], from the lightest on
// (Documentation/gpu/drm-uapi.rst). It is nil if nothing is to be done.
func wedge(methods string) *sdk.Health {
	switch first, _, _ := strings.Cut(methods, ","); first {
	case "none", "":
		return nil
	case "rebind", "bus-reset", "vendor-specific":
		return sdk.Fault("wedged", sdk.RecoveryReset, "the driver could not recover the GPU and asks for "+first+": reset the GPU when nothing uses it")
	}
	return sdk.Fault("wedged", sdk.RecoveryReboot, "the driver could not recover the GPU: see the kernel log, and reboot the node")
}

// function returns the PCI function of a device below it, such as
// /devices/pci0000:00/…/0000:63:00.0/drm/card1.
func function(devPath string) pci.Address {
	for dir := devPath; dir != "/" && dir != "."; dir = path.Dir(dir) {
		if name := path.Base(dir); strings.Count(name, ":") == 2 {
			if at, err := pci.ParseAddress(name); err == nil {
				return at
			}
		}
	}
	return pci.Address{}
}

// stream is a stream of events of a card, open or being opened.
type stream struct {
	close context.CancelFunc
	// ended: it could not be opened, or has ended.
	ended bool
}

// monitor has a stream of events for each card that was found last. One that could not be
// opened, or has ended, is opened again after the next scan.
func (s *source) monitor(ctx context.Context) {
	streams, logged := map[uint32]*stream{}, map[uint32]bool{}
	results := make(chan func())
	for {
		select {
		case <-ctx.Done():
			return
		case result := <-results:
			result()
		case found := <-s.found:
			for number, open := range streams {
				if _, still := found[number]; !still || open.ended {
					open.close()
					delete(streams, number)
				}
			}
			for number, id := range found {
				if streams[number] != nil {
					continue
				}
				own, cancel := context.WithCancel(ctx)
				opened := &stream{close: cancel}
				streams[number] = opened
				go func() {
					err := s.listen(own, number, id)
					ended := func() {
						opened.ended = true
						if err != nil && !logged[number] {
							s.backend.log.Info("KFD reports no resets and throttling of a GPU; its error counters are still read", "device", id, "error", err)
							logged[number] = true
						}
					}
					select {
					case results <- ended:
					case <-ctx.Done():
					}
				}()
			}
		}
	}
}

// listen passes the events of a card to the loop until they end. They come at all KFD nodes of a
// card, so those of the first are enough. The error is why there are none.
func (s *source) listen(ctx context.Context, number uint32, id string) error {
	do := func(f func(engine.Known)) { _ = s.backend.Do(ctx, f) } // an error means that the loop has ended
	err := smi.Read(ctx, s.backend.seams.events(s.cfg.host.Devfs), number, func(e smi.Event) {
		do(func(known engine.Known) { s.event(known, id, e) })
	})
	if errors.Is(err, smi.ErrEnded) {
		do(engine.Known.Scan) // the GPU or the driver is gone
		return nil
	}
	return err
}

// event takes over an event of a card. It runs in the loop.
func (s *source) event(known engine.Known, id string, e smi.Event) {
	units := known.Units()
	i := slices.IndexFunc(units, func(u *engine.KnownUnit) bool { return u.Unit.ID == id })
	if i < 0 {
		return
	}
	u, log := units[i], s.backend.log.With("device", id)
	switch e.Kind {
	case smi.PreReset:
		log.Warn("the driver resets a GPU", "reason", e.Reason)
		u.BeginReset()
	case smi.PostReset:
		log.Info("the driver has reset a GPU")
		u.EndReset()
	case smi.ThermalThrottle:
		m, now := memoryOf(u), time.Now()
		if s.cfg.health.Thermal == report && now.Sub(m.hot) >= cools {
			log.Warn("heat throttles a GPU", "times", e.Count)
		}
		m.hot = now
	}
}
