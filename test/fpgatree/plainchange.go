package fpgatree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
)

// plain is what the drivers have of a Plain: the manager's, and that of regions.
type plain struct {
	manager, regions *loaded
	// number is that of its manager.
	number int
}

// missing reports whether there is nothing under a name.
func (w *writer) missing(name string) bool {
	_, err := os.Lstat(w.Path(name))
	return errors.Is(err, fs.ErrNotExist)
}

// unloadPlain takes the drivers from a Plain, if it has them.
func (t *Tree) unloadPlain(i int) error {
	p := t.plain[i]
	if p == nil {
		return nil
	}
	err := errors.Join(t.takeDown(p.regions), t.takeDown(p.manager))
	delete(t.plain, i)
	t.Halfway("no driver of the FPGA")
	return err
}

// takeDown removes what a driver has made.
func (t *Tree) takeDown(l *loaded) error {
	w := t.writer()
	for _, node := range l.nodes {
		w.Remove(node)
	}
	t.Halfway("no nodes")
	for _, dir := range slices.Backward(l.dirs) {
		w.Remove(dir)
		t.Halfway("dangling links")
	}
	for _, link := range l.links {
		w.Remove(link)
	}
	for _, n := range l.numbers {
		delete(t.numbers[n.kind], n.n)
	}
	return w.Err
}

// ReloadPlain unloads the drivers of all of Machine.Plain and loads them again, in the
// order given, as indices; those that are not in it are left without.
func (t *Tree) ReloadPlain(order ...int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.machine.Plain {
		if err := t.unloadPlain(i); err != nil {
			return err
		}
	}
	t.Halfway("no driver")
	for _, i := range order {
		if i < 0 || i >= len(t.machine.Plain) || t.plain[i] != nil {
			return fmt.Errorf("there is no FPGA %d, or it is in the order twice", i)
		}
		if err := t.loadPlain(i); err != nil {
			return err
		}
	}
	return nil
}

// SetManager sets a file of the manager of the i-th of Machine.Plain, such as "state"
// to "write error", or "status".
func (t *Tree) SetManager(i int, file, text string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	dir, err := t.managerDir(i)
	if err != nil {
		return err
	}
	return t.replace(path.Join(dir, file), text)
}

// Manager is the path, below the root, of the manager of the i-th of Machine.Plain.
func (t *Tree) Manager(i int) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.managerDir(i)
}

func (t *Tree) managerDir(i int) (string, error) {
	p := t.plain[i]
	if p == nil {
		return "", fmt.Errorf("FPGA %d has no manager", i)
	}
	m := t.machine.Plain[i]
	return fmt.Sprintf("%s/fpga_manager/fpga%d", m.dir(m.Device), p.number), nil
}

// SetPlainRegions has the i-th of Machine.Plain other regions, as overlays of the
// device tree do: those that are there go first.
func (t *Tree) SetPlainRegions(i int, regions ...PlainRegion) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.plain[i]
	if p == nil {
		return fmt.Errorf("FPGA %d has no manager", i)
	}
	if err := t.takeDown(p.regions); err != nil {
		return err
	}
	m := &t.machine.Plain[i]
	m.Regions, p.regions = slices.Clone(regions), &loaded{}
	w := t.writer()
	w.regionNodes(*m, i+1)
	t.Halfway("no regions")
	for _, r := range m.Regions {
		t.plainRegion(w, p.regions, *m, r, "")
	}
	return w.Err
}
