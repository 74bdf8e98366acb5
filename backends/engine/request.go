package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Targets are the devices of a call.
type Targets struct {
	sdk.Targets
	// Devices are those of the call that are known.
	Devices []Target
}

// Find returns the devices with these IDs as they were read last, without a scan.
func (e *Engine) Find(ctx context.Context, ids []string) (*Targets, error) {
	return sdk.InLoop(ctx, e.asks, func(l *loop) *Targets { return l.find(ids) })
}

// Held returns the devices of a preparation as [Engine.Find] does. It is an error if one is not known.
func (e *Engine) Held(ctx context.Context, p sdk.Preparation) (*Targets, error) {
	t, err := e.Find(ctx, p.IDs())
	if err == nil {
		err = t.Missing()
	}
	if err != nil {
		return nil, err
	}
	shared := p.Shared()
	for i := range t.Devices {
		t.Devices[i].Shared = slices.Contains(shared, t.Devices[i].Device.ID)
	}
	return t, nil
}

func (l *loop) find(ids []string) *Targets {
	t := &Targets{}
	var seen []string
	for _, known := range l.roster.sorted() {
		for _, d := range known.sorted() {
			if slices.Contains(ids, d.Stable.ID) {
				t.Devices = append(t.Devices, d.target())
				seen = append(seen, d.Stable.ID)
			}
		}
	}
	for _, device := range t.Devices {
		for _, id := range device.Group {
			if !slices.Contains(seen, id) && !slices.Contains(t.Others, id) {
				t.Others = append(t.Others, id)
			}
		}
	}
	t.Unknown = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(seen, id) })
	return t
}

func (d *KnownDevice) target() Target {
	t := Target{Driver: d.Unit.source.driver, Unit: d.Unit.Unit, Device: d.Read, Memory: d.Memory}
	for _, known := range d.Unit.roster.sorted() {
		if known.source == d.Unit.source && known.Unit.Board == t.Unit.Board {
			t.Board = append(t.Board, known.Unit.ID)
		}
		for _, other := range known.sorted() {
			if other != d && d.Stable.resetsWith(other.Stable) {
				t.Group = append(t.Group, other.Stable.ID)
			}
		}
	}
	return t
}

// resetsWith reports whether a reset of the device reaches the other one, too.
func (d Device) resetsWith(other Device) bool {
	if d.ResetGroup != "" && other.ResetGroup == d.ResetGroup {
		return true
	}
	return slices.ContainsFunc(d.Functions, func(at pci.Address) bool { return slices.Contains(other.Functions, at) })
}

// Scan has the drivers of devices scanned at once, and required sensors read, and returns
// what the scan found. After an operation (back) it waits until all of the devices are present
// and not busy. The error is that of ctx.
func (e *Engine) Scan(ctx context.Context, back bool, devices ...string) (Seen, error) {
	w := &waiter{ctx: ctx, begun: map[string]uint64{}, readings: map[string]uint64{}, devices: devices, back: back, seen: make(chan Seen, 1)}
	_, err := sdk.InLoop(ctx, e.asks, func(l *loop) bool {
		for _, d := range l.known(devices) {
			w.begun[d.Stable.ID] = d.Unit.source.begun
			d.Unit.source.scanAt(time.Now())
			if d.Unit.source.senses {
				w.readings[d.Stable.ID], d.Unit.readings.next = d.Unit.readings.begun, time.Time{}
			}
		}
		l.waiters = append(l.waiters, w)
		return true
	})
	if err != nil {
		return Seen{}, err
	}
	select {
	case s := <-w.seen:
		return s, nil
	case <-ctx.Done():
		return Seen{}, fmt.Errorf("wait for the %s to answer: %w", e.options.Hardware, ctx.Err())
	}
}

// madePause is the time between two scans while a device is awaited that was made.
const madePause = 200 * time.Millisecond

// Made waits until a device that was made is listed with its edits, and returns these. The error has its fault if
// it is not within the limit.
func (e *Engine) Made(ctx context.Context, id string, limit time.Duration) (*sdk.Edits, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		seen, err := e.Scan(ctx, false, id)
		if err != nil {
			return nil, err
		}
		d := seen.Devices[id]
		if d.GetEdits() != nil && !d.GetPotential() {
			return d.GetEdits(), nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s was made, and cannot be given to a container: %s", id, cmp.Or(d.GetHealth().GetMessage(), "the driver does not list it"))
		case <-time.After(madePause):
		}
	}
}

// known returns the devices with these IDs that are known.
func (l *loop) known(ids []string) []*KnownDevice {
	var all []*KnownDevice
	for _, id := range ids {
		if d := l.roster.device(id); d != nil {
			all = append(all, d)
		}
	}
	return all
}

// answer answers the waiters whose scans have come.
func (l *loop) answer() {
	l.waiters = slices.DeleteFunc(l.waiters, func(w *waiter) bool {
		if w.ctx.Err() != nil {
			return true // gone
		}
		devices := l.known(w.devices)
		for _, d := range devices {
			s := d.Unit.source
			if s.last.number <= w.begun[d.Stable.ID] {
				return false
			}
			if w.back && (d.operation != nil || !d.busy.IsZero() || !d.answers()) {
				s.scanAt(s.lastScan.Add(settle))
				return false
			}
			if s.senses && d.Unit.absent == nil && d.Unit.readings.last <= w.readings[d.Stable.ID] {
				return false
			}
		}
		seen := Seen{Devices: map[string]*sdk.Device{}, Targets: map[string]Target{}}
		for _, d := range devices {
			seen.Devices[d.Stable.ID], _ = l.device(d)
			seen.Targets[d.Stable.ID] = d.target()
			seen.Err = cmp.Or(seen.Err, d.Unit.source.last.Err)
		}
		w.seen <- seen
		return true
	})
}
