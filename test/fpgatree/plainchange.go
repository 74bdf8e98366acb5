package fpgatree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
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
