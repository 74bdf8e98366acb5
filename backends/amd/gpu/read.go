package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/accelmux/accelmux/backends/amd/drm"
	"github.com/accelmux/accelmux/backends/amd/kfd"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// tries is how often a machine that changes meanwhile is read at most.
const tries = 4

// Read finds the GPUs. root is that of sysfs, usually /sys; names may be nil. A
// machine that changes meanwhile is read again, a few times at most. The error is
// fs.ErrNotExist if the driver amdgpu is not loaded. It can be called concurrently.
func Read(root string, names *Names) (Inventory, error) {
	return read(root, names, func() {})
}

// read is Read; a test changes the tree between the parts of a pass.
func read(root string, names *Names, between func()) (Inventory, error) {
	for try := 1; ; try++ {
		inventory, torn, err := pass(root, names, between)
		if err != nil {
			return Inventory{}, err
		}
		if inventory.Unstable = torn; !torn || try == tries {
			return inventory, nil
		}
	}
}

// pass reads everything once, and reports whether something changed during it.
func pass(root string, names *Names, between func()) (inventory Inventory, torn bool, err error) {
	// The generation comes first: later changes of the nodes are seen then, and a change of
	// cards and DRM devices changes nodes, too.
	generation, err := kfd.Generation(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Inventory{}, false, err
	}
	j := join{root: root, names: names, cards: map[pci.Address]*card{}}
	if err := j.readCards(); err != nil {
		return Inventory{}, false, err
	}
	between()
	class, err := drm.Read(root)
	if err != nil {
		return Inventory{}, false, err
	}
	between()
	topology, err := kfd.Read(root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		j.problem("KFD", true, fmt.Errorf("there is no compute driver, which is part of amdgpu: %w", err))
	case err != nil:
		return Inventory{}, false, err
	}
	j.problemsOf(class, topology)
	gpus := j.assemble(class, topology)
	slices.SortFunc(gpus, func(a, b GPU) int { return a.PCI.Address.Compare(b.PCI.Address) })
	slices.SortStableFunc(j.problems, func(a, b Problem) int { return cmp.Compare(a.Device, b.Device) })
	inventory = Inventory{Generation: topology.Generation, GPUs: gpus, Problems: j.problems}
	if version, err := sysfs.Text(filepath.Join(root, "module", "amdgpu", "version")); err == nil {
		inventory.DriverVersion = printable(version)
	}
	if source, err := sysfs.Text(filepath.Join(root, "module", "amdgpu", "srcversion")); err == nil {
		inventory.DriverSource = printable(source)
	}
	return inventory, class.Torn || topology.Torn || topology.Generation != generation, nil
}

// join is one pass: the cards by address, and what was found of them.
type join struct {
	root     string
	names    *Names
	cards    map[pci.Address]*card // those that answer
	problems []Problem
	used     map[int]bool // render minors of partitions
}

// sorted returns the cards that answer, by address.
func (j *join) sorted() []*card {
	return slices.SortedFunc(maps.Values(j.cards), func(a, b *card) int { return a.at.Address.Compare(b.at.Address) })
}

// problem adds a problem; lost: the device is left out because of it.
func (j *join) problem(device string, lost bool, err error) {
	j.problems = append(j.problems, Problem{Device: device, Lost: lost, Err: err})
}

// readCards reads the cards that the driver has.
func (j *join) readCards() error {
	entries, err := os.ReadDir(filepath.Join(j.root, "bus", "pci", "drivers", "amdgpu"))
	if err != nil {
		return fmt.Errorf("driver amdgpu: %w", err)
	}
	ids := map[uint64]*card{}
	for _, e := range entries {
		at, err := pci.ParseAddress(e.Name())
		if err != nil {
			continue
		}
		c, err := readCard(j.root, at)
		if err != nil {
			j.problem(at.String(), true, err)
			continue
		}
		for _, note := range c.notes {
			j.problem(at.String(), false, note)
		}
		if other := ids[c.uniqueID]; other != nil && c.uniqueID != 0 {
			err := fmt.Errorf("%s and %s have the same unique_id %016x, and could be taken for each other", other.at.Address, at, c.uniqueID)
			j.problem(at.String(), true, err)
			if j.cards[other.at.Address] != nil {
				j.problem(other.at.Address.String(), true, err)
				delete(j.cards, other.at.Address)
			}
			continue
		}
		ids[c.uniqueID] = &c
		j.cards[at] = &c
	}
	return nil
}

// problemsOf takes over what could not be read of DRM and KFD.
func (j *join) problemsOf(class drm.Class, topology kfd.Topology) {
	for _, p := range class.Problems {
		j.problem(p.Minor, true, p.Err)
	}
	for _, p := range topology.Problems {
		j.problem(fmt.Sprintf("KFD node %d", p.Node), !p.Link, p.Err)
	}
}
