package page

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/status/listing"
)

// lister shows devices as a reader may see them.
type lister struct {
	q        question
	devices  []listing.Device
	measured map[inventory.Key]listing.Measured
	samples  *samples
	// missing is why backends have no measurements, by backend.
	missing map[string]string
	// listed are the indexes of devices.
	listed map[inventory.Key]int
}

// table is the list of devices.
type table struct {
	Rows []row
	// Range is which of how many rows are shown; "" for all.
	Range string
	// Before, After and Filter are links to other rows, and to all or only the unhealthy ones; "" for none.
	Before, After, Filter string
	// Unhealthy: only those are listed.
	Unhealthy bool
	// Missing is why backends have no measurements.
	Missing []string
}

// row is a device, or several partitions of one.
type row struct {
	ID, Link, Kind   string
	State, Health    string
	Faults           []string
	Resource, HeldBy string
	Charts           []chart
}

// detail is all that is known of one device.
type detail struct {
	row
	// Close is the link to the page without it.
	Close   string
	Facts   []fact
	Changes []change
	// Unknown: there is no such device.
	Unknown bool
}

type fact struct{ Name, Value string }

func newLister(q question, devices []listing.Device, t listing.Telemetry, samples *samples) *lister {
	l := &lister{q: q, devices: devices, samples: samples, missing: t.Missing, measured: make(map[inventory.Key]listing.Measured, len(t.Devices)),
		listed: make(map[inventory.Key]int, len(devices))}
	for _, m := range t.Devices {
		l.measured[inventory.Key{Backend: m.Backend, ID: m.ID}] = m
	}
	for i, d := range devices {
		l.listed[inventory.Key{Backend: d.Backend, ID: d.ID}] = i
	}
	return l
}

// link returns the link to all of a device; "" if it is not listed.
func (l *lister) link(key inventory.Key) string {
	if _, ok := l.listed[key]; !ok {
		return ""
	}
	to := l.q
	to.device = key.Backend + "/" + key.ID
	return to.link("device")
}

// heldBy returns who has a device; "" if it is free or not listed.
func (l *lister) heldBy(key inventory.Key) string {
	at, ok := l.listed[key]
	if !ok {
		return ""
	}
	return l.q.heldBy(l.devices[at].Holders)
}

// table returns the list of devices.
func (l *lister) table() (t table) {
	shown := l.devices
	if t.Unhealthy = l.q.unhealthy; t.Unhealthy {
		shown = slices.DeleteFunc(slices.Clone(shown), func(d listing.Device) bool { return d.Healthy })
	}
	shown = l.withParents(listing.FoldPartitions(shown, l.cells))
	to := l.q
	to.unhealthy, to.first = !l.q.unhealthy, 0
	t.Filter = to.link("devices")
	to.unhealthy = l.q.unhealthy
	first := min(l.q.first, max(len(shown)-1, 0))
	last := min(first+pageRows, len(shown))
	if first > 0 {
		to.first = max(first-pageRows, 0)
		t.Before = to.link("devices")
	}
	if last < len(shown) {
		to.first = last
		t.After = to.link("devices")
	}
	if last-first < len(shown) {
		t.Range = fmt.Sprintf("%d to %d of %d", first+1, last, len(shown))
	}
	for _, d := range shown[first:last] {
		t.Rows = append(t.Rows, l.row(d))
	}
	for _, backend := range slices.Sorted(maps.Keys(l.missing)) {
		t.Missing = append(t.Missing, fmt.Sprintf("backend %s has no values: %s", backend, l.q.message(l.missing[backend])))
	}
	return t
}

// cells are what partitions that share a row have in common.
func (l *lister) cells(d *listing.Device) (parent string, id *string, cells []any) {
	return d.Parent, &d.ID, []any{d.Backend, d.Class, d.AttributeText("model"), listing.NUMAText(d.NUMANodes), d.ResourceText(), d.HealthText(), l.q.heldBy(d.Holders)}
}

// withParents adds the devices that are not listed, but are measured for their partitions, before these.
func (l *lister) withParents(devices []listing.Device) (all []listing.Device) {
	added := map[inventory.Key]bool{}
	for _, d := range devices {
		key := inventory.Key{Backend: d.Backend, ID: d.Parent}
		_, listed := l.listed[key]
		if m := l.measured[key]; d.Parent != "" && !listed && !added[key] && len(m.Values) > 0 {
			added[key] = true
			all = append(all, listing.Device{Backend: d.Backend, ID: d.Parent, Healthy: true})
		}
		all = append(all, d)
	}
	return all
}

// row returns the row of a device.
func (l *lister) row(d listing.Device) row {
	key := inventory.Key{Backend: d.Backend, ID: d.ID}
	m := l.measured[key]
	r := row{
		ID: d.ID, Link: l.link(key), Kind: d.Backend, State: "healthy", Health: d.HealthText(), Resource: cmp.Or(d.ResourceText(), "no resource"),
		HeldBy: cmp.Or(l.q.heldBy(d.Holders), "free"), Charts: charts(m, l.samples.of(key)),
	}
	switch {
	case d.Class == "": // see withParents
		r.State, r.Kind, r.Health, r.Resource, r.HeldBy = "", d.Backend+", the device of the partitions below", "", "", ""
		return r
	case !d.Healthy:
		r.State = "unhealthy"
	case d.Potential:
		r.State = "potential"
	}
	r.Kind += ", " + cmp.Or(d.AttributeText("model"), d.Class)
	if numa := listing.NUMAText(d.NUMANodes); numa != "" {
		r.Kind += ", NUMA " + numa
	}
	for _, f := range d.Faults {
		r.Faults = append(r.Faults, l.q.message(f.Message))
	}
	return r
}

// detail returns all that is known of the device that is asked for; nil for none.
func (l *lister) detail(now time.Time) *detail {
	if l.q.device == "" {
		return nil
	}
	to := l.q
	to.device = ""
	answer := &detail{row: row{ID: l.q.device}, Close: to.link("devices"), Unknown: true}
	at := slices.IndexFunc(l.devices, func(d listing.Device) bool { return d.Backend+"/"+d.ID == l.q.device })
	if at < 0 {
		return answer
	}
	d := l.devices[at]
	answer.Unknown, answer.row = false, l.row(d)
	answer.Faults = nil
	add := func(name string, value any) {
		if text := fmt.Sprint(value); text != "" {
			answer.Facts = append(answer.Facts, fact{name, text})
		}
	}
	for _, f := range d.Faults {
		text := f.Code + ", for " + age(f.Since, now) + ": " + f.Message
		if f.From != "" {
			text += "; it is the fault of " + f.From + ", which this is a part of"
		}
		add("fault", l.q.message(text))
	}
	add("backend", d.Backend)
	add("class", d.Class)
	add("NUMA nodes", listing.NUMAText(d.NUMANodes))
	add("PCI", d.PCIBusID)
	add("part of", d.Parent)
	add("CDI", d.CDI)
	if l.q.named {
		add("made for claim", d.MadeFor)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
		add(name, d.Attributes[name])
	}
	for _, name := range slices.Sorted(maps.Keys(d.Capacities)) {
		add(name, resource.NewQuantity(d.Capacities[name], resource.BinarySI))
	}
	for _, v := range l.measured[inventory.Key{Backend: d.Backend, ID: d.ID}].Values {
		name := v.Name
		for _, label := range slices.Sorted(maps.Keys(v.Labels)) {
			name += " " + label + "=" + v.Labels[label]
		}
		add(name, number(v.Value))
	}
	return answer
}

// number formats a value with four digits or, from a thousand on, without a fraction.
func number(value float64) string {
	if math.Abs(value) >= 1000 {
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.4g", value)
}

// heldBy returns the holders of a device as the reader may see them; "" for none.
func (q question) heldBy(all []listing.Holder) string {
	if q.named || len(all) == 0 {
		return listing.HoldersText(all)
	}
	pods, claims, ending := map[string]bool{}, map[string]bool{}, false
	for i, h := range all {
		ending = ending || h.Ending
		switch {
		case h.Claim != "":
			claims[h.Namespace+"/"+h.Claim] = true
		case h.Pod != "":
			pods[h.Namespace+"/"+h.Pod] = true
		default:
			pods[fmt.Sprint(i)] = true
		}
	}
	text := ""
	for _, c := range []struct {
		n    int
		noun string
	}{{len(claims), "claim"}, {len(pods), "pod"}} {
		if c.n > 0 && text != "" {
			text += ", "
		}
		if c.n > 1 {
			text += fmt.Sprintf("%d %ss", c.n, c.noun)
		} else if c.n == 1 {
			text += "a " + c.noun
		}
	}
	if ending {
		text += " (ending)"
	}
	return text
}
