package fpgatree

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/test/sysroot"
)

// Unpack makes the tree of a capture in a directory: a .tar.gz with the directories
// tmp/sys and tmp/dev. Files and links are as captured. What every kernel has and a
// capture may lack is added: the class and numa_node of Intel's PCI functions, and the
// class hwmon.
func Unpack(dir, archive string) (*Tree, error) {
	t := newTree(dir)
	w := t.writer()
	if err := sysroot.Unpack(archive, w.extract); err != nil {
		return nil, err
	}
	w.Dir("sys/class/hwmon", "dev")
	functions, err := filepath.Glob(w.Path("sys/bus/pci/devices/*"))
	w.Do(err)
	for _, f := range functions {
		at, err := pci.ParseAddress(filepath.Base(f))
		w.Do(err)
		w.supply(at, "class", fmt.Sprintf("0x%06x\n", accelerator))
		w.supply(at, "numa_node", "-1\n")
	}
	w.Do(filepath.WalkDir(t.Sysfs(), func(file string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && filepath.Base(filepath.Dir(file)) == "hwmon" {
			name, err := filepath.Rel(t.Root, file)
			w.Do(err)
			w.Relative("sys/class/hwmon/"+path.Base(name), name)
		}
		return err
	}))
	return t, w.Err
}

// supply makes a file of a PCI function that the capture lacks.
func (w *writer) supply(at pci.Address, name, text string) {
	file := path.Join("sys/bus/pci/devices", at.String(), name)
	if _, err := os.Stat(w.Path(file)); errors.Is(err, fs.ErrNotExist) {
		w.File(file, text)
	}
}

// extract makes an entry of a capture.
func (w *writer) extract(h *tar.Header, content string) {
	_, name, ok := strings.Cut(path.Clean("/"+h.Name), "/tmp/")
	if !ok || !filepath.IsLocal(name) {
		return
	}
	switch h.Typeflag {
	case tar.TypeDir:
		w.Dir(name)
	case tar.TypeSymlink:
		w.Link(name, h.Linkname)
	case tar.TypeReg:
		w.File(name, content)
	}
}
