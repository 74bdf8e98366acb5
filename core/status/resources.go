package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/conflict"
	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/core/resource"
)

// addResources adds the resources, those of the device plugin API first, and their problems.
func (f Facts) addResources(r *Report) {
	allocated := f.allocated()
	registered := map[string]bool{}
	for _, s := range f.Kubelet.Resources {
		registered[s.Resource] = s.State != deviceplugin.StateEmpty
		for _, note := range append([]string{s.Error}, s.Notes...) {
			if note != "" {
				r.Problems = append(r.Problems, Problem{Resource: s.Resource, Message: note})
			}
		}
		configured := f.Round.Resource(s.Resource)
		if isDRA(configured) {
			continue
		}
		entry := Resource{
			Name: s.Resource, API: string(config.APIDevicePlugin), State: string(s.State), Since: s.Since, Socket: s.Socket,
			Registrations: s.Registrations,
			Units:         s.Healthy + s.Unhealthy, Healthy: s.Healthy, Allocated: allocated[s.Resource], LastError: s.Error,
		}
		if i := slices.IndexFunc(f.Kubelet.Conflicts, func(c conflict.Conflict) bool { return c.Resource == s.Resource }); i >= 0 {
			entry.Conflict = f.Kubelet.Conflicts[i].Message
		}
		if s.Unlisted {
			entry.Note = "no longer configured: it stays registered with kubelet, without devices, until the agent ends"
		}
		if configured != nil {
			entry.Registration, entry.Injection = string(configured.Registration), string(configured.Injection)
		}
		r.Resources = append(r.Resources, entry)
	}
	for _, configured := range f.Round.Resources() {
		if !isDRA(configured) {
			continue
		}
		entry := f.published(configured)
		entry.Allocated = allocated[configured.Name]
		if registered[configured.Name] {
			entry.Note = "served by dynamic resource allocation now: it stays registered with kubelet, without devices, until the agent ends"
		}
		r.Resources = append(r.Resources, entry)
	}
	if f.Round == nil {
		return
	}
	for _, problem := range f.Round.Table.Problems {
		r.Problems = append(r.Problems, Problem{Device: problem.Device, Message: problem.Message})
	}
}

// allocated counts the units that are allocated, by resource, and for dynamic resource allocation
// the devices.
func (f Facts) allocated() map[string]int {
	dra := map[string]bool{}
	for _, r := range f.Round.Resources() {
		dra[r.Name] = isDRA(r)
	}
	count := map[string]int{}
	for device, all := range f.Allocations {
		counted := map[string]bool{}
		for _, a := range all {
			name := cmp.Or(a.Resource, f.Round.ResourceOf(device))
			if dra[name] && counted[name] {
				continue
			}
			counted[name] = true
			count[name]++
		}
	}
	return count
}

// published returns the entry of a resource of dynamic resource allocation.
func (f Facts) published(r *resource.Resource) Resource {
	entry := Resource{Name: r.Name, API: string(r.API), State: string(deviceplugin.StateServing), Units: len(r.Devices)}
	for _, d := range r.Devices {
		if d.Verdict.Healthy {
			entry.Healthy++
		}
	}
	switch {
	case len(r.Devices) == 0:
		entry.State = string(deviceplugin.StateEmpty)
	case slices.ContainsFunc(f.driversOf(r), func(d Driver) bool { return d.missing() != "" }):
		entry.State = string(deviceplugin.StateWaiting)
	}
	return entry
}

// driversOf returns the drivers of the resource's devices, in the order of their backends. One that
// is not in f.Drivers does not serve.
func (f Facts) driversOf(r *resource.Resource) []Driver {
	backends := map[string]bool{}
	for _, d := range r.Devices {
		backends[d.Backend] = true
	}
	var drivers []Driver
	for _, backend := range slices.Sorted(maps.Keys(backends)) {
		driver := Driver{Name: f.Round.Profile.Backend(backend).DRA.Driver, Backend: backend}
		if i := slices.IndexFunc(f.Drivers, func(d Driver) bool { return d.Name == driver.Name }); i >= 0 {
			driver = f.Drivers[i]
		}
		drivers = append(drivers, driver)
	}
	return drivers
}

func (f Facts) addDrivers(r *Report) {
	r.Drivers = f.Drivers
	for _, d := range f.Drivers {
		if d.Problem != "" {
			r.Problems = append(r.Problems, Problem{Backend: d.Backend, Message: "driver " + d.Name + ": " + d.Problem})
		}
	}
}

// missing returns what keeps the driver's devices from pods; "" if nothing does.
func (d Driver) missing() string {
	message := d.unregistered()
	switch {
	case d.Published:
		return message
	case message != "":
		return message + ", and the API server has not accepted its devices"
	}
	return fmt.Sprintf("the API server has not accepted the devices of driver %s of backend %s yet", d.Name, d.Backend)
}

// unregistered returns what keeps the driver from kubelet; "" if nothing does.
func (d Driver) unregistered() string {
	if d.Registered {
		return ""
	}
	return fmt.Sprintf("kubelet has not accepted driver %s of backend %s yet", d.Name, d.Backend)
}

// isDRA reports whether a resource is served by dynamic resource allocation; a nil one is not.
func isDRA(r *resource.Resource) bool { return r != nil && r.API == config.APIDRA }
