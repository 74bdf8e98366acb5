package dra

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/dra/pool"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/round"
)

// wanted is a driver that is to run.
type wanted struct {
	Publication
	// metadata is its option Metadata. It is started again for another one.
	metadata bool
}

// wanted returns the drivers that are to run, by name.
func (f *Frontend) wanted(r *round.Round) map[string]wanted {
	all, running := map[string]wanted{}, f.running()
	for i := range r.Profile.Backends {
		b := &r.Profile.Backends[i]
		devices, groups, named := f.devices(r, b.Name)
		_, runs := running[b.DRA.Driver]
		if !named && len(devices) == 0 && (!runs || !selects(r.Profile, b.Name)) {
			continue
		}
		f.needed[b.DRA.Driver] = time.Now()
		all[b.DRA.Driver] = wanted{metadata: b.DRA.Metadata, Publication: Publication{
			Backend: backendOf(r, b.Name), Reported: r.Backend(b.Name) != nil, Devices: devices, LinkGroups: groups, Evict: eviction(running[b.DRA.Driver], b.DRA.Evict), Kinds: b.DRA.Kinds,
		}}
	}
	for _, c := range f.opts.Record.All() {
		w, ok := all[c.Driver]
		if !ok {
			w = wanted{Publication{Backend: backendOf(r, c.Devices[0].Backend), Reported: true}, f.metadata(c.Driver, running[c.Driver])}
			if b := r.Profile.Backend(w.Backend.Name); b != nil {
				w.Kinds, w.metadata = b.DRA.Kinds, b.DRA.Metadata // or another prepare gives kubelet another answer
			}
		}
		for _, d := range c.Devices {
			if device := r.Device(d.Key()); device != nil {
				w.Claimed = append(w.Claimed, resource.Device{Device: device, Resource: r.ResourceOf(d.Key()), Verdict: r.OwnVerdict(d.Key())})
			}
		}
		all[c.Driver] = w
		f.needed[c.Driver] = time.Now()
	}
	// For kubelet's unprepare.
	for _, i := range f.opts.Record.Unreadable() {
		f.keep(all, i.Driver, running)
	}
	for name := range running {
		if f.opts.Record.IsCalled(name) {
			f.keep(all, name, running)
		}
	}
	for name, last := range f.needed {
		if time.Since(last) < f.linger {
			f.keep(all, name, running)
		}
	}
	return all
}

// eviction returns whether faults evict pods, and since when that is so, as far as the driver has published it.
func eviction(d *Driver, on bool) pool.Eviction {
	if d == nil || !on {
		return pool.Eviction{On: on}
	}
	before := d.newest()
	if before.Backend != nil && !before.Evict.On {
		return pool.Eviction{On: on, Since: time.Now()}
	}
	return pool.Eviction{On: on, Since: before.Evict.Since}
}

// metadata returns the option Metadata of a driver that is no longer configured: it runs on as it is.
// If it does not run, it is whether there are such files: another prepare gives kubelet the same answer.
func (f *Frontend) metadata(name string, d *Driver) bool {
	if d != nil {
		return d.opts.Metadata
	}
	_, err := os.Stat(metadataDir(f.opts.KubeletRootDir, name))
	return err == nil
}

// keep adds a driver without devices, unless it is there, or cannot serve anyway.
func (f *Frontend) keep(all map[string]wanted, name string, running map[string]*Driver) {
	if _, ok := all[name]; !ok && f.opts.Client != nil {
		all[name] = wanted{Publication{Backend: unknownBackend, Reported: true}, f.metadata(name, running[name])}
	}
}

// unknownBackend is that of a driver that is no longer configured and has no claim in the record.
var unknownBackend = &inventory.Backend{}

// backendOf returns a backend of the round; one without a description if it has not reported.
func backendOf(r *round.Round, name string) *inventory.Backend {
	return cmp.Or(r.Backend(name), &inventory.Backend{Name: name})
}

// selects reports whether a resource with the API config.APIDRA may select devices of the backend.
func selects(p *config.Profile, backend string) bool {
	return slices.ContainsFunc(p.Resources, func(r config.Resource) bool {
		return r.API == config.APIDRA && cmp.Or(r.Backend, backend) == backend
	})
}

// devices returns the devices of a backend that a driver publishes, in the order in which the
// scheduler is to try them, without those that a container has by the device plugin API, and their link
// groups. named: a resource names the backend.
func (f *Frontend) devices(r *round.Round, backend string) (all []resource.Device, groups map[string]pool.LinkGroups, named bool) {
	groups = map[string]pool.LinkGroups{}
	for _, res := range r.Table.Resources {
		if res.API != config.APIDRA {
			continue
		}
		named = named || res.Backend == backend
		var own []resource.Device
		for _, d := range res.Devices {
			if d.Backend == backend {
				own = append(own, d)
			}
		}
		if len(own) == 0 {
			continue
		}
		order := f.order.of(backend+" "+res.Name, own)
		maps.Copy(groups, order.groups)
		for _, d := range order.sort(own) {
			if !round.IsHeldElsewhere(d.Verdict) {
				all = append(all, d)
			}
		}
	}
	return all, groups, named
}
