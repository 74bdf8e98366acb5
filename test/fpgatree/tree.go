package fpgatree

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/accelmux/accelmux/test/sysroot"
)

// Tree is a tree on disk. Its methods for Alveo cards and FPGAs without DFL can be called by
// one goroutine at a time, while others read the files; the other methods concurrently.
type Tree struct {
	// Root has the directories sys and dev.
	Root string
	// InReset is called when WriteShutdown has reset a card. It may read the files, and calls no
	// method of the tree.
	InReset func()

	mu      sync.Mutex
	machine Machine
	// The bays of Machine.Cards, Machine.Alveos and Machine.Plain, by index; none of a capture.
	cards, alveos, plain []*bay
	// numbers are those that are taken, by kind.
	numbers map[string]map[int]bool
	// openNodes has nodes be files; see OpenNodes.
	openNodes bool
}

// Write makes the tree of a machine in a directory, with all cards plugged in and the
// driver loaded. The directory must exist and have no tree.
func Write(dir string, m Machine) (*Tree, error) {
	m.Cards, m.Alveos, m.Plain = slices.Clone(m.Cards), slices.Clone(m.Alveos), slices.Clone(m.Plain)
	for i := range m.Cards {
		m.Cards[i].Ports = max(m.Cards[i].Ports, 1)
	}
	t := newTree(dir)
	t.machine = m
	w := t.writer()
	w.Dir("sys/class/fpga_region", "sys/class/fpga", "sys/class/hwmon", "sys/bus/pci/devices", "sys/bus/pci/drivers/dfl-pci",
		"sys/bus/pci/drivers/intel-fpga-pci", "dev", sysroot.Staging)
	if len(m.Alveos) > 0 {
		w.Dir("sys/class/drm", "sys/bus/pci/drivers/xocl", "sys/bus/pci/drivers/xclmgmt", "dev/dri")
	}
	if w.Err != nil {
		return nil, w.Err
	}
	for i, c := range m.Cards {
		t.cards = append(t.cards, &bay{functions: c.functions(), plug: func() error { return t.plugCard(i) }, load: func(l *loaded) error { return t.load(l, i) }})
	}
	for i, c := range m.Alveos {
		t.alveos = append(t.alveos, &bay{functions: c.functions(), plug: func() error { return t.plugAlveo(i) }, load: func(l *loaded) error { return t.loadAlveo(l, i) }})
	}
	for i := range m.Plain {
		t.plain = append(t.plain, &bay{plug: func() error { return t.plugPlain(i) }, load: func(l *loaded) error { return t.loadPlain(l, i) }})
	}
	for _, b := range slices.Concat(t.alveos, t.cards, t.plain) {
		if err := errors.Join(b.plug(), b.bind()); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func newTree(dir string) *Tree {
	return &Tree{Root: dir, InReset: func() {}, numbers: map[string]map[int]bool{}}
}

// Sysfs is the root of sysfs.
func (t *Tree) Sysfs() string { return filepath.Join(t.Root, "sys") }

// Devfs is the root of the device nodes.
func (t *Tree) Devfs() string { return filepath.Join(t.Root, "dev") }

// OpenNodes has the device nodes of Intel's drivers be empty files from now on, as they
// are where the process may make no nodes: a character device without a driver behind
// it cannot be opened, and what stands for the driver in tests, package fpgadevice, sees
// ioctls only.
func (t *Tree) OpenNodes() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.openNodes = true
	for _, pattern := range []string{"dfl-*", "intel-fpga-*"} {
		nodes, err := filepath.Glob(filepath.Join(t.Devfs(), pattern))
		if err != nil {
			return err
		}
		for _, node := range nodes {
			if err := errors.Join(os.Remove(node), os.WriteFile(node, nil, 0o660)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Machine is what is described, whether or not it is plugged in.
func (t *Tree) Machine() Machine {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Machine{
		Cards: slices.Clone(t.machine.Cards), Alveos: slices.Clone(t.machine.Alveos), Plain: slices.Clone(t.machine.Plain),
	}
}

type writer struct{ sysroot.Writer }

func (t *Tree) writer() *writer { return &writer{sysroot.Writer{Root: t.Root}} }
