package device

import (
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/backends/device/description"
	"github.com/accelmux/accelmux/backends/device/expression"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// vendor decides for the engine about described devices. Its methods run in the engine's loop.
type vendor struct{}

var (
	_ engine.Rememberer  = vendor{}
	_ engine.EventReader = vendor{}
)

// memory is what is remembered of a device. It is replaced, never changed.
type memory struct {
	// renewals is their number when it began: a reset or a reload of the driver ends it.
	renewals uint64
	// files are those that are judged by how they change.
	files []history
	// health is the gravest fault that the history of the files shows, event the one of an
	// event of the kernel; nil if there is none.
	health, event *sdk.Health
}

func readingIn(d engine.Device) reading {
	r, _ := d.Vendor.(reading)
	return r
}

func memoryOf(d *engine.KnownDevice) memory {
	m, _ := d.Memory.(memory)
	if now := d.Unit.Renewals(); m.renewals != now {
		return memory{renewals: now}
	}
	return m
}

// Found implements [engine.Rememberer].
func (vendor) Found(d *engine.KnownDevice, read engine.Device) {
	r, m, now := readingIn(read), memoryOf(d), time.Now()
	m.health = nil
	for _, value := range r.values { // files that could not be read now stay
		h := &r.kind.Health[value.index]
		next := history{value: value, since: now}
		i := slices.IndexFunc(m.files, func(f history) bool { return f.value.isSameFile(value) })
		if i < 0 {
			m.files = append(slices.Clip(m.files), next)
		} else if next = m.files[i].follow(h, value, now); next != m.files[i] {
			m.files = slices.Clone(m.files)
			m.files[i] = next
		}
		m.health = sdk.Graver(m.health, next.health(h, now))
	}
	d.Memory = m
}

// Forget implements [engine.Rememberer]: what comes back begins again.
func (vendor) Forget(d *engine.KnownDevice) { d.Memory = memory{renewals: d.Unit.Renewals()} }

// Faults implements [engine.Vendor].
func (vendor) Faults(d *engine.KnownDevice) (own, shared *sdk.Health) {
	m := memoryOf(d)
	return sdk.Graver(sdk.Graver(readingIn(d.Read).health, m.health), m.event), nil
}

// List implements [engine.Vendor].
func (vendor) List(d *engine.KnownDevice) (*sdk.Device, []string) {
	r := readingIn(d.Stable)
	device := &sdk.Device{Class: r.kind.Class, Attributes: r.attributes, Capacities: maps.Clone(r.capacities), Links: r.links}
	if at := r.objects[0].Object.Hardware().PCI; at != nil {
		device.PciBusId = at.String()
	}
	if r.numa >= 0 {
		device.NumaNodes = []uint32{uint32(r.numa)} //nolint:gosec // of 16 bits
	}
	if n := int64(r.kind.Count); n > 0 {
		device.Shareable = true
		device.Capacities[description.SharesCapacity] = n
		device.RequestPolicies = map[string]*backendv1.RequestPolicy{
			description.SharesCapacity: {Default: 1, Range: &backendv1.AmountRange{Min: 1, Max: n, Step: 1}},
		}
	}
	if len(r.kind.Prepare) > 0 {
		device.Hooks = []sdk.Hook{sdk.HookPrepare, sdk.HookRelease}
	}
	var problems []string
	for _, p := range r.problems {
		problems = append(problems, d.Stable.ID+": "+p)
	}
	return device, problems
}

// Uevent implements [engine.EventReader]: it records faults that the kernel only reports, and that a
// driver has set up a device again, though no scan saw it without driver, or unplugged.
func (vendor) Uevent(e uevent.Event, known engine.Known) {
	for _, u := range known.Units() {
		for _, device := range u.Unit.Devices {
			d, r := known.Device(device.ID), readingIn(device)
			if d == nil {
				continue
			}
			about := r.isAbout(e)
			// The kernel adds an interface to a network namespace into which it is moved, too.
			if about && e.IsSetUp() && !slices.Contains(inNetwork, e.Subsystem) {
				u.EndReset()
			}
			for i := range r.kind.Health {
				h := &r.kind.Health[i]
				property, ok := h.EventIn(e.Properties)
				if !ok || !about && !r.isBelow(e) {
					continue
				}
				m := memoryOf(d)
				m.event = sdk.Graver(m.event, fault(h, message(h, r.objects[0]), "the kernel reported "+property))
				d.Memory = m
			}
		}
	}
}

// isAbout reports whether an event is about an object of the device, or the hardware it is on.
func (r reading) isAbout(e uevent.Event) bool {
	for _, o := range r.objects {
		if e.DevPath == path.Join("/", o.Object.Dir) || e.DevPath == path.Join("/", o.Object.Hardware().Dir) {
			return true
		}
	}
	return false
}

// isBelow reports whether an event is about a PCI bridge above an object of the device: Linux reports there
// that it could not recover what is behind the bridge from an error (pcie_do_recovery in
// drivers/pci/pcie/err.c), and nothing of a function whose driver handles no errors.
func (r reading) isBelow(e uevent.Event) bool {
	return e.Subsystem == "pci" && slices.ContainsFunc(r.objects, func(o *expression.Scope) bool {
		return strings.HasPrefix(path.Join("/", o.Object.Dir), e.DevPath+"/")
	})
}
