package dra

import (
	"errors"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/inventory"
)

// Status is what a driver does now.
type Status struct {
	// Driver is its name, Backend that of its backend.
	Driver, Backend string
	// Devices is how many it publishes.
	Devices int
	// Registered: kubelet has accepted the driver. Published: the API server has accepted the
	// slices with the devices.
	Registered, Published bool
	// Problem is, for the operator, why the driver does not serve; "" if it does, or if that is
	// not known yet.
	Problem string
	// Omissions are what is not published of the devices.
	Omissions []inventory.Problem
}

// Status returns what the driver does now.
func (d *Driver) Status() Status {
	d.mu.Lock()
	s := Status{Driver: d.opts.Name, Registered: d.registered && d.failure == nil}
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
		s.Omissions = slices.Clone(p.pool.Problems)
		for _, slice := range p.pool.Slices {
			s.Devices += len(slice.Devices)
		}
	}
	if err := errors.Join(append(errs, p.trouble, p.refusal)...); err != nil {
		s.Problem = strings.ReplaceAll(err.Error(), "\n", "; ") // errors.Join has a line for each
	}
	return s
}
