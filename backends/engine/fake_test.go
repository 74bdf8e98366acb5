package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
)

// fake is a driver whose hardware is as a test sets it.
type fake struct {
	name string
	// exclusive: its resets exclude all else.
	exclusive bool

	mu sync.Mutex
	// units and the rest of the result of a scan.
	result Scan
	// scans counts scans. A scan waits for hold to be closed, if there is one, before it
	// reads, or after that (late). Hangs makes one for the first scan.
	scans       int
	hold        chan struct{}
	late, hangs bool
	// resets are the devices that were reset, one string a call.
	resets []string
	// reset is called during a reset, sense during a reading of sensors.
	reset func(ctx context.Context) error
	sense func(unit string) faults
	// unavailable: the sensors are. required: they are required.
	unavailable, required bool
}

// faults are what the fake's units and devices report, as Vendor.
type faults []*sdk.Health

func (f *fake) Name() string { return f.name }

func (f *fake) Scan([]Unit) Scan {
	f.mu.Lock()
	hold, late := f.hold, f.late
	f.scans++
	f.mu.Unlock()
	if late {
		defer func() {
			if hold != nil {
				<-hold
			}
		}()
	} else if hold != nil {
		<-hold
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	result := f.result
	result.Units = slices.Clone(result.Units)
	for i := range result.Units {
		result.Units[i].Devices = slices.Clone(result.Units[i].Devices)
	}
	return result
}

func (f *fake) Reset(ctx context.Context, targets []Target) (string, error) {
	f.mu.Lock()
	reset := f.reset
	f.mu.Unlock()
	if reset != nil {
		if err := reset(ctx); err != nil {
			return "", err
		}
	}
	f.set(func() {
		f.resets = append(f.resets, fmt.Sprint(ids(targets)))
		for _, t := range targets {
			f.unit(t.Unit.ID).Vendor = nil
			f.device(t.Device.ID).Vendor = nil
		}
	})
	return fmt.Sprint("reset of ", ids(targets)), nil
}

func (f *fake) Sense(u Unit, device string) Senses {
	f.mu.Lock()
	sense := f.sense
	f.mu.Unlock()
	if sense == nil {
		return Senses{}
	}
	read := sense(u.ID)
	f.mu.Lock()
	defer f.mu.Unlock()
	return Senses{Vendor: read, Unavailable: f.unavailable, Metrics: []*sdk.Metric{sdk.Gauge(device, "temperature_celsius", 41)}}
}

// set changes the hardware.
func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.scans
}

// unit and device find one to change; the caller holds the lock.
func (f *fake) unit(id string) *Unit {
	if i := slices.IndexFunc(f.result.Units, func(u Unit) bool { return u.ID == id }); i >= 0 {
		return &f.result.Units[i]
	}
	return &Unit{}
}

func (f *fake) device(id string) *Device {
	for _, u := range f.result.Units {
		if i := slices.IndexFunc(u.Devices, func(d Device) bool { return d.ID == id }); i >= 0 {
			return &u.Devices[i]
		}
	}
	return &Device{}
}

// fail sets the fault of a device; "" for none.
func (f *fake) fail(device, code string, recovery sdk.Recovery) {
	f.set(func() {
		f.device(device).Vendor = nil
		if code != "" {
			f.device(device).Vendor = faults{sdk.Fault(code, recovery, code+" is set")}
		}
	})
}

// unitOf returns a unit on the PCI bus with devices; each has content.
func unitOf(id string, bus uint8, devices ...string) Unit {
	u := Unit{ID: id, Board: id, PCI: &pci.Device{Address: pci.Address{Bus: bus}, NUMANode: 1, Driver: "fake"}}
	for i, d := range devices {
		u.Devices = append(u.Devices, Device{ID: d, Number: i, Name: "part " + d, Content: "x", Edits: sdk.Nodes("/dev/" + d)})
	}
	return u
}

// vendor reports the faults of the fake, and counts what is remembered.
type vendor struct{ lost *[]string }

func (vendor) Faults(d *KnownDevice) (own, shared *sdk.Health) {
	gravest := func(v any) (worst *sdk.Health) {
		all, _ := v.(faults)
		for _, h := range all {
			worst = sdk.Graver(worst, h)
		}
		return worst
	}
	for _, u := range d.Unit.Board() {
		shared = sdk.Graver(shared, sdk.Graver(gravest(u.Unit.Vendor), gravest(u.Senses)))
	}
	if found, ok := d.Unit.Memory.(faults); ok {
		shared = sdk.Graver(shared, gravest(found))
	}
	return gravest(d.Read.Vendor), shared
}

// Uevent makes a fault of an event with the property FAULT.
func (vendor) Uevent(e uevent.Event, known Known) {
	if code := e.Properties["FAULT"]; code != "" {
		known.Units()[0].Memory = faults{sdk.Fault(code, sdk.RecoveryReset, "x")}
	}
}

func (vendor) List(d *KnownDevice) (*sdk.Device, []string) {
	listed := &sdk.Device{Class: "part", Attributes: map[string]*sdk.Attribute{
		"content": sdk.String(d.Stable.Content), "driver": sdk.String(d.Unit.Driver().Name()),
	}}
	if m, ok := d.Memory.(mark); ok {
		listed.Attributes["mark"] = sdk.String(string(m))
	}
	for _, peer := range []string{"a0", "b0"} {
		if peer != d.Stable.ID {
			listed.Links = append(listed.Links, &sdk.Link{PeerId: peer})
		}
	}
	return listed, nil
}

// mark is a memory that is listed.
type mark string

func (vendor) Found(d *KnownDevice, read Device) { d.Memory = d.Stable.Content + ">" + read.Content }

func (v vendor) Forget(d *KnownDevice) {
	d.Memory = ""
	*v.lost = append(*v.lost, d.Stable.ID)
}

func (vendor) Count(u *KnownUnit, device string) []*sdk.Metric {
	return []*sdk.Metric{sdk.Counter(device, u.Unit.ID+"_total", 1)}
}

func (vendor) Sensed(u *KnownUnit, senses any) bool { return u.Senses == nil && senses != nil }

func (vendor) Problems(*KnownUnit) []string { return nil }
