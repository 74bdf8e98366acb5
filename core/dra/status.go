package dra

import (
	"errors"
	"fmt"
	"slices"

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
	// Problems are for the operator.
	Problems []inventory.Problem
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
		s.Problems = slices.Clone(p.pool.Problems)
		for _, slice := range p.pool.Slices {
			s.Devices += len(slice.Devices)
		}
	}
	for _, err := range append(errs, p.trouble, p.refusal) {
		if err != nil {
			s.Problems = append(s.Problems, problem(d.opts.Name, err))
		}
	}
	return s
}

// problem returns the problem of a driver.
func problem(driver string, err error) inventory.Problem {
	return inventory.Problem{Message: fmt.Sprintf("dynamic resource allocation: driver %s: %v", driver, err)}
}
