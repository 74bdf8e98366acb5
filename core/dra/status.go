package dra

import (
	"errors"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/accelmux/accelmux/core/inventory"
)

// Status is what a driver does now.
type Status struct {
	// Driver is its name, Backend that of its backend.
	Driver, Backend string
	// Devices is how many it publishes, in how many ResourceSlices.
	Devices, Slices int
	// Claims is how many it has prepared, or begun to.
	Claims int
	// Registered: kubelet has accepted the driver. Published: the API server has accepted the
	// slices with the devices.
	Registered, Published bool
	// Problem is, for the operator, why the driver does not serve; "" if it does, or if that is
	// not known yet.
	Problem string
	// Omissions are devices that are not published, Notes what is not published of the others.
	Omissions []inventory.Problem
	Notes     []string
}

// Status returns what the driver does now.
func (d *Driver) Status() Status {
	d.mu.Lock()
	s := Status{Driver: d.opts.Name, Claims: d.opts.Record.Count(d.opts.Name), Registered: d.registered && d.failure == nil}
	if d.publication.Backend != nil {
		s.Backend = d.publication.Backend.Name
	}
	errs := []error{d.failure}
	if d.refusal != "" {
		errs = append(errs, errors.New("kubelet refused the driver: "+d.refusal))
	}
	d.mu.Unlock()
	p := d.publisher
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Published = p.accepted
	if p.pool != nil {
		s.Omissions, s.Notes, s.Slices = slices.Clone(p.pool.Problems), slices.Clone(p.pool.Notes), len(p.pool.Slices)
		for _, slice := range p.pool.Slices {
			s.Devices += len(slice.Devices)
		}
	}
	if err := errors.Join(append(errs, p.trouble, p.refusal)...); err != nil {
		s.Problem = strings.ReplaceAll(err.Error(), "\n", "; ") // errors.Join has a line for each
	}
	return s
}

// Slices returns what the drivers publish, in the order of their names, without what the API server
// adds.
func (f *Frontend) Slices() (all []*resourceapi.ResourceSlice) {
	drivers := f.running()
	for _, name := range slices.Sorted(maps.Keys(drivers)) {
		if driver := drivers[name]; driver != nil {
			all = append(all, driver.publisher.objects()...)
		}
	}
	return all
}

func (p *publisher) objects() []*resourceapi.ResourceSlice {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pool == nil {
		return nil
	}
	return p.pool.Objects(p.driver.opts.Name, p.driver.opts.NodeName)
}
