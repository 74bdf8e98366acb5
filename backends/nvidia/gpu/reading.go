package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Reading is what was found of a GPU at one moment. It never changes.
type Reading struct {
	// GPU has the values from NVML; if the GPU could not be read, those of an earlier reading and the error.
	driver.GPU
	// At is the GPU in sysfs; its vendor is zero if sysfs does not have it.
	At pci.Device
	// Began is when the reading began. Number orders the readings by that.
	Began  time.Time
	Number uint64
	// Loads counts how often the driver was loaded again since the process began.
	Loads uint64
	// node is the problem with the device node of a GPU that NVML does not list; "" if there is none.
	node string
}

// errUnlisted is the Err of a GPU that NVML does not list.
var errUnlisted = errors.New("the driver does not list the GPU any more")

// Identify returns the readings of a snapshot's GPUs, and problems of those that have no UUID and of those that NVML does not
// list. known are the GPUs of earlier scans: one that NVML cannot read keeps their values, and so does one that it does not
// list any more though its driver has it, as the mismatches have it. GPUs that were unplugged, or have another driver, are left
// out.
func Identify(s driver.Snapshot, known []Reading, mismatched []Mismatch, host sdk.HostPaths) (found []Reading, problems []engine.Problem) {
	for _, g := range placed(s.GPUs, host.Sysfs) {
		before := of(known, g)
		if g.UUID == "" {
			g.UUID = cmp.Or(before.UUID, identifier(host.Procfs, g.PCIBusID))
		}
		switch {
		case g.UUID == "":
			problems = append(problems, unidentified(g))
			continue
		case unplugged(before, g, host.Sysfs):
			continue
		case slices.ContainsFunc(found, func(r Reading) bool { return r.UUID == g.UUID }):
			continue
		}
		found = append(found, before.Next(g, host.Sysfs))
	}
	for _, m := range mismatched {
		if slices.ContainsFunc(found, m.is) || slices.ContainsFunc(problems, func(p engine.Problem) bool { return p.Device == m.busID }) {
			continue
		}
		i := slices.IndexFunc(known, m.is)
		if i < 0 {
			problems = append(problems, m.overlooked())
			continue
		}
		g := known[i].GPU
		g.Err = errUnlisted
		if r := known[i].Next(g, host.Sysfs); r.At.Driver == DriverName {
			r.node = m.node
			found = append(found, r)
		}
	}
	return found, problems
}

// of returns the earlier reading of a GPU, by its UUID or else by its place; the zero value if there is none.
func of(known []Reading, g driver.GPU) Reading {
	for _, same := range []func(Reading) bool{
		func(r Reading) bool { return r.UUID == g.UUID },
		func(r Reading) bool { return g.UUID == "" && g.PCIBusID != "" && r.PCIBusID == g.PCIBusID },
	} {
		if i := slices.IndexFunc(known, same); i >= 0 {
			return known[i]
		}
	}
	return Reading{}
}

// Next returns the reading of a GPU after r, which is the zero value for the first.
func (r Reading) Next(g driver.GPU, sysfs string) Reading {
	if g.Err != nil && r.UUID != "" {
		before := r.GPU
		before.Err, before.Index, before.PCIBusID = g.Err, g.Index, cmp.Or(g.PCIBusID, before.PCIBusID)
		g = before
	}
	return Reading{GPU: g, At: deviceAt(sysfs, g.PCIBusID)}
}

// unplugged reports whether a GPU is lost because it was taken off the PCI bus: sysfs had it there
// when it was last read. A machine may also list GPUs that its PCI bus never had.
func unplugged(before Reading, g driver.GPU, sysfs string) bool {
	return errors.Is(g.Err, driver.ErrLost) && before.At.Vendor != 0 && deviceAt(sysfs, cmp.Or(g.PCIBusID, before.PCIBusID)).Vendor == 0
}

// Unplugged reports whether the GPU was taken off the PCI bus since the reading.
func (r Reading) Unplugged(sysfs string) bool {
	return r.At.Vendor != 0 && deviceAt(sysfs, r.PCIBusID).Vendor == 0
}

// LacksNode reports whether NVML does not list the GPU because of its device node.
func (r Reading) LacksNode() bool { return r.node != "" }

// unidentified returns the problem of a GPU without a UUID.
func unidentified(g driver.GPU) engine.Problem {
	where := cmp.Or(g.PCIBusID, "a GPU at an unknown bus ID")
	if g.Err == nil {
		return engine.Problem{Device: where, Err: errors.New("the GPU has no UUID, so no container can be given it")}
	}
	return engine.Problem{Device: where, Err: fmt.Errorf("the GPU failed before the driver reported its UUID, so it is not listed: %w", g.Err)}
}

// is reports whether the GPU is that of the mismatch.
func (m Mismatch) is(r Reading) bool { return r.PCIBusID == m.busID }

// overlooked returns the problem of a mismatched GPU of which nothing is known, so that none is missing without a report.
func (m Mismatch) overlooked() engine.Problem {
	// With Lost the next scan comes before the interval ends: the device node may be made late.
	return engine.Problem{Device: m.busID, Lost: true, Err: errors.New("the NVIDIA driver has the GPU, but NVML does not list it: " +
		cmp.Or(m.node, "see the kernel's log (dmesg | grep NVRM); if the GPU is dead, reboot the node"))}
}
