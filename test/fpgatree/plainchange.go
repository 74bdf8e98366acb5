package fpgatree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
)

// missing reports whether there is nothing under a name.
func (w *writer) missing(name string) bool {
	_, err := os.Lstat(w.Path(name))
	return errors.Is(err, fs.ErrNotExist)
}

// SetManager sets a file of the manager of the i-th of Machine.Plain, such as "state"
// to "write error", or "status".
func (t *Tree) SetManager(i int, file, text string) error {
	dir, err := t.Manager(i)
	if err != nil {
		return err
	}
	return t.replace(path.Join(dir, file), text)
}

// Manager is the path, below the root, of the manager of the i-th of Machine.Plain.
func (t *Tree) Manager(i int) (string, error) {
	l := t.plain[i].loaded
	if l == nil {
		return "", fmt.Errorf("FPGA %d has no manager", i)
	}
	m := t.machine.Plain[i]
	return fmt.Sprintf("%s/fpga_manager/fpga%d", m.dir(m.Device), l.manager), nil
}

// SetPlainRegions has the i-th of Machine.Plain other regions, as overlays of the
// device tree do: those that are there go first.
func (t *Tree) SetPlainRegions(i int, regions ...PlainRegion) error {
	l := t.plain[i].loaded
	if err := t.drop(l.regions); err != nil {
		return err
	}
	m := &t.machine.Plain[i]
	m.Regions, l.regions = slices.Clone(regions), &loaded{}
	w := t.writer()
	w.regionNodes(*m, i+1)
	for _, r := range m.Regions {
		t.plainRegion(w, l.regions, *m, r, "")
	}
	return w.Err
}
