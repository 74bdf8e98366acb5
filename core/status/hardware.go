package status

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/pcibus"
)

// hardwareProblems are the differences between the PCI bus and what the backends list.
func (f Facts) hardwareProblems() []Problem {
	v := f.Round
	if v.Idle() {
		return nil
	}
	table := f.Hardware()
	accelerators, err := pcibus.Read(f.Sysfs, table)
	switch {
	case errors.Is(err, fs.ErrNotExist): // a machine without a PCI bus
		return nil
	case err != nil:
		return []Problem{{Message: "hardware that no backend lists cannot be found: " + err.Error()}}
	}
	return hardwareProblems(v.Profile, v.Snapshot.Backends, accelerators, table)
}

// hardwareProblems returns one problem for each cause: accelerators that no configured
// backend covers and no backend lists; hardware of a backend that it neither lists nor has a
// problem with; and backends whose hardware is missing although the profile expects it.
// Backends that have not reported yet are left out. See docs/configuration.md, "Hardware that no
// backend lists".
func hardwareProblems(profile *config.Profile, backends []*inventory.Backend, found []pcibus.Accelerator, table pcibus.Table) (problems []Problem) {
	reported, listed := map[string]*inventory.Backend{}, map[string]bool{}
	for _, b := range backends {
		reported[b.Name] = b
		for _, d := range b.Devices {
			listed[slot(d.PCIBusID)] = true
		}
	}
	// The name in its manifest, or that of its program until it was found.
	kind := func(b config.Backend) string {
		if is := reported[b.Name]; is != nil && is.Description.Name != "" {
			return is.Description.Name
		}
		return strings.TrimPrefix(b.Command, config.CommandPrefix)
	}
	found = slices.DeleteFunc(slices.Clone(found), func(a pcibus.Accelerator) bool { return profile.Ignores(a.Vendor, a.Device) })
	uncovered, anyThere := map[string][]pcibus.Accelerator{}, false
	for _, a := range found {
		covered := slices.ContainsFunc(profile.Backends, func(b config.Backend) bool { return a.Covered(kind(b)) })
		anyThere = anyThere || covered
		if !covered && !listed[slot(a.Address)] {
			uncovered[a.Vendor] = append(uncovered[a.Vendor], a)
		}
	}
	for _, vendor := range slices.Sorted(maps.Keys(uncovered)) {
		problems = append(problems, Problem{Message: uncoveredMessage(profile, uncovered[vendor])})
	}
	for _, b := range profile.Backends {
		is := reported[b.Name]
		if is == nil || !table.Has(kind(b)) {
			continue
		}
		its := slices.DeleteFunc(slices.Clone(found), func(a pcibus.Accelerator) bool { return !a.Covered(kind(b)) })
		lost := slices.DeleteFunc(slices.Clone(its), func(a pcibus.Accelerator) bool { return listed[slot(a.Address)] || mentioned(is.Problems, a) })
		switch {
		case len(is.Devices) > 0 && len(lost) > 0:
			problems = append(problems, Problem{Backend: b.Name, Message: "it does not list " + describe(lost) + ": " + unlistedAdvice(lost)})
		case len(is.Devices) > 0:
		case len(its) > 0:
			problems = append(problems, Problem{Backend: b.Name, Message: "it lists no devices, but the PCI bus has " +
				describe(its) + ": " + unlistedAdvice(its)})
		case profile.NodeSelector != nil || !anyThere:
			problems = append(problems, Problem{Backend: b.Name, Message: fmt.Sprintf(
				"it lists no devices, and the PCI bus has no hardware for it: give the profile %s a nodeSelector that leaves this node out, or take the backend out of it", profile.Name)})
		}
	}
	return problems
}

// slot is the address of a PCI device without the function.
func slot(address string) string {
	at, _, _ := strings.Cut(address, ".")
	return at
}

// mentioned reports whether one of a backend's problems has the address of an accelerator.
func mentioned(problems []inventory.Problem, a pcibus.Accelerator) bool {
	return slices.ContainsFunc(problems, func(p inventory.Problem) bool { return strings.Contains(p.Message, a.Address) })
}

// uncoveredMessage is the problem of uncovered accelerators of one vendor.
func uncoveredMessage(profile *config.Profile, its []pcibus.Accelerator) string {
	advice := "no manifest in the backend directory has this hardware"
	if kind := its[0].Backend(); kind != "" {
		advice = "add the backend " + kind
	}
	return fmt.Sprintf("the PCI bus has %s, which no backend of the profile %s covers: %s, or add %s to the profile's ignorePCI",
		describe(its), profile.Name, advice, its[0].Vendor)
}

// unlistedAdvice says what to do about accelerators that their backend does not list.
func unlistedAdvice(its []pcibus.Accelerator) string {
	if slices.ContainsFunc(its, func(a pcibus.Accelerator) bool { return a.Driver == "" }) {
		return "no kernel driver is bound; load the vendor's driver, or see the kernel log for why the driver does not have it"
	}
	return "the kernel driver is " + its[0].Driver + "; see the backend's log and other problems for what it lacks"
}

// describe counts accelerators, and names the first.
func describe(its []pcibus.Accelerator) string {
	first := fmt.Sprintf("%s (%s:%s, class %s)", its[0].Address, its[0].Vendor, its[0].Device, its[0].Class)
	if len(its) == 1 {
		return "the accelerator " + first
	}
	return fmt.Sprintf("%d accelerators, %s and %d more", len(its), first, len(its)-1)
}
