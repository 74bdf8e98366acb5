package manager

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
)

// cards reads the managers, and gives each its regions.
func (r *reader) cards(members []member) []driver.Card {
	var managers []*found
	var regions []*part
	for _, m := range members {
		switch {
		case m.err != nil:
			r.problem(m.name, true, m.err)
		case r.foreign(m):
		case m.class == "fpga_manager":
			f, err := r.manager(m)
			if err != nil {
				r.problem(m.name, true, err)
				continue
			}
			managers = append(managers, f)
		default:
			node := r.node(m.device, m.dir)
			regions = append(regions, &part{member: m, node: node})
		}
	}
	r.share(managers, regions)
	var cards []driver.Card
	for _, f := range r.distinct(managers) {
		cards = append(cards, r.card(f, regions))
	}
	slices.SortFunc(cards, func(a, b driver.Card) int { return cmp.Compare(a.ID, b.ID) })
	return cards
}

// manager reads what a card is; it fails if the manager reports neither its name nor its state.
func (r *reader) manager(m member) (*found, error) {
	f := &found{member: m}
	node := r.node(m.device, m.dir)
	at, inPCI := r.function(m.device)
	if inPCI {
		device, err := pci.ReadDevice(r.root, at)
		if err != nil {
			return nil, err
		}
		f.function, f.card.PCI = &at, &device
	}
	f.place = placeOf(m.device[len(r.devices)+1:], node, f.function)
	model, err := r.line(m.dir, "name")
	if err != nil {
		return nil, err
	}
	state, err := r.line(m.dir, "state")
	if err != nil {
		return nil, err
	}
	if node != "" {
		if f.handle, err = r.cell(node, "phandle"); err != nil {
			r.problem(m.name, false, err)
		}
	}
	info, err := os.Lstat(filepath.Join(m.dir, "firmware"))
	f.files = err == nil && info.Mode().IsRegular()
	c := &f.card
	c.ID, c.Model, c.Dir = f.place.id(), model, r.relative(m.dir)
	c.Board = c.ID
	if f.function != nil {
		board := *f.function
		board.Function = 0
		c.Board = place{label: placeOf("", "", &board).label, exact: true}.id()
	}
	c.Attributes = map[string]*sdk.Attribute{
		"managerState": sdk.String(state), "programmed": sdk.Bool(state == operating),
	}
	if node != "" {
		c.Attributes["deviceTreeNode"] = sdk.String("/" + node)
	}
	r.health(f, state)
	return f, nil
}

// health reads what is wrong with a card.
func (r *reader) health(f *found, state string) {
	var faults []driver.Fault
	var known bool
	f.state, faults, known = judge(state, f.files)
	if !known {
		r.problem(f.name, false, fmt.Errorf("%s is %q, which no known kernel reports; it is taken for unknown", filepath.Join(f.dir, "state"), state))
	}
	f.card.Faults = faults
	// If the driver reports no errors, the file is empty (Linux 6.1), is absent, or answers ENOENT.
	status, err := r.text(page, f.dir, "status")
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.problem(f.name, false, err)
		}
		return
	}
	faults, err = judgeStatus(status, state, f.files)
	if err != nil {
		r.problem(f.name, false, &fs.PathError{Op: "read", Path: filepath.Join(f.dir, "status"), Err: err})
	}
	f.card.Faults = append(f.card.Faults, faults...)
}

// share gives regions to managers.
func (r *reader) share(managers []*found, regions []*part) {
	for _, p := range regions {
		for _, other := range regions {
			p.outer = p.outer || below(other.dir, p.dir)
			p.inner = p.inner || below(p.dir, other.dir)
		}
	}
	for _, p := range regions {
		f, err := r.owner(managers, p)
		if err != nil {
			r.problem(p.name, true, err)
		}
		if f != nil {
			p.place = placeOf(p.device[len(r.devices)+1:], p.node, f.function)
			f.regions = append(f.regions, p)
		}
	}
}

// owner returns the manager of a region: the one that the device tree names, or the only one
// in the same PCI function or device. A PCI function with regions and no manager is of
// another driver, as each of an Intel card's is that has no engine: nil without an
// error.
func (r *reader) owner(managers []*found, p *part) (*found, error) {
	handle, err := r.programmer(p.node)
	if err != nil {
		return nil, err
	}
	at, inPCI := r.function(p.device)
	var near []*found
	for _, f := range managers {
		switch {
		case handle != 0:
			if f.handle == handle {
				return f, nil
			}
		case inPCI:
			if f.function != nil && *f.function == at {
				near = append(near, f)
			}
		case p.device == f.device || below(p.device, f.device):
			near = append(near, f)
		}
	}
	switch {
	case len(near) == 1:
		return near[0], nil
	case inPCI && len(near) == 0 && handle == 0:
		return nil, nil
	case handle != 0:
		return nil, fmt.Errorf("its manager is not there: the device tree names it in fpga-mgr of %q; see whether its driver is loaded", p.node)
	}
	return nil, fmt.Errorf("it is not known which manager programs it: %d are in its device, and there is no fpga-mgr in its node of the device tree", len(near))
}

// distinct returns the managers without those that have one ID.
func (r *reader) distinct(managers []*found) []*found {
	count := map[string]int{}
	for _, f := range managers {
		count[f.card.ID]++
	}
	return slices.DeleteFunc(managers, func(f *found) bool {
		n := count[f.card.ID]
		if n > 1 {
			r.problem(f.name, true, fmt.Errorf("%d managers are at %q but for numbers that change: they cannot be distinguished", n, f.place.path))
		}
		return n > 1
	})
}

// card makes a card of a manager and its regions; all are those of other managers, too.
func (r *reader) card(f *found, all []*part) driver.Card {
	c := f.card
	var leaves []*part
	tops := 0
	for _, p := range f.regions {
		if !p.outer {
			leaves = append(leaves, p)
		}
		if !p.inner {
			tops++
		}
	}
	slices.SortFunc(leaves, func(a, b *part) int { return cmp.Compare(a.place.path, b.place.path) })
	given := map[string]bool{}
	for i, p := range leaves {
		g := f.whole()
		g.Number, g.Dir, g.Interface = i, r.relative(p.dir), r.compat(p)
		g.Env["FPGA_REGION"] = p.name
		g.Programmable = f.files && (len(leaves) == 1 || r.settings.Flags&partial != 0)
		g.Attributes = r.overlay(f, p)
		label := ""
		if p.inner || tops > 1 {
			// One that is alone keeps the ID that the manager has without it: drivers of
			// regions are loaded later.
			label, g.ID = p.place.label, g.ID+"-"+p.place.hash()
			g.Attributes["region"] = sdk.String(label)
		}
		g.Name = regionName(g.Interface, c.Model, label)
		g.Nodes = r.nodes(f, p, len(leaves) == 1, all)
		for _, node := range g.Nodes {
			given[node] = true
		}
		c.Regions = append(c.Regions, g)
	}
	if len(leaves) == 0 {
		g := f.whole()
		g.Programmable = f.files
		c.Regions = []driver.Region{g}
	}
	c.Regions = r.apart(f, c.Regions)
	c.Management = r.management(f, given, all)
	return c
}

// whole returns a manager as one region, or what all of its regions have.
func (f *found) whole() driver.Region {
	return driver.Region{
		ID: f.card.ID + "-region", State: f.state, Kind: driver.Plain, Name: regionName("", f.card.Model, ""),
		Env: map[string]string{"FPGA_MANAGER": f.name}, Dir: f.card.Dir,
	}
}

// apart returns the regions without those that have one ID.
func (r *reader) apart(f *found, regions []driver.Region) []driver.Region {
	count := map[string]int{}
	for _, g := range regions {
		count[g.ID]++
	}
	return slices.DeleteFunc(regions, func(g driver.Region) bool {
		if n := count[g.ID]; n > 1 {
			r.problem(f.name, false, fmt.Errorf("%d regions are at one place but for numbers that change, so %s is left out", n, g.Env["FPGA_REGION"]))
			return true
		}
		return false
	})
}
