package fpgatree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/accelmux/accelmux/test/sysroot"
)

// Tree is a tree on disk. Its methods can be called by one goroutine at a time, while
// others read the files.
type Tree struct {
	// Root has the directories sys and dev.
	Root string
	// Halfway is called at each state in between that a kernel shows while something
	// changes, with a word for it; see README.md. It may read the files, and calls no
	// method of the tree.
	Halfway func(state string)

	mu      sync.Mutex
	machine Machine
	// loaded are the cards that have the driver, by index; unplugged those that are not
	// there.
	loaded    map[int]*loaded
	unplugged map[int]bool
	numbers   map[string]map[int]bool
	// plain are those of Machine.Plain that have their drivers, by index.
	plain map[int]*plain
	// alveos and unpluggedAlveos are the same of Machine.Alveos.
	alveos          map[int]*loaded
	unpluggedAlveos map[int]bool
	// openNodes has nodes be files; see OpenNodes.
	openNodes bool
}

// loaded is what the driver has of a card.
type loaded struct {
	Card
	numbers []number
	links   []string // of classes
	nodes   []string // in dev
	dirs    []string // what else goes with the driver
}

// number is one of those that the kernel gives: the lowest that is free.
type number struct {
	kind string
	n    int
}

// errCaptured means that something can be done to a described machine only.
var errCaptured = errors.New("a captured card cannot be unplugged or loaded anew; describe one")

// Write makes the tree of a machine in a directory, with all cards plugged in and the
// driver loaded. The directory must exist and have no tree.
func Write(dir string, m Machine) (*Tree, error) {
	m.Cards, m.Plain = slices.Clone(m.Cards), slices.Clone(m.Plain)
	for i := range m.Cards {
		if err := m.Cards[i].complete(); err != nil {
			return nil, err
		}
	}
	m.Alveos = slices.Clone(m.Alveos)
	for _, c := range m.Alveos {
		if err := c.complete(); err != nil {
			return nil, err
		}
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
	for i := range m.Alveos {
		if err := errors.Join(t.plugAlveo(i), t.loadAlveo(i)); err != nil {
			return nil, err
		}
	}
	for i := range m.Cards {
		if err := errors.Join(t.plug(i), t.load(i)); err != nil {
			return nil, err
		}
	}
	for i := range m.Plain {
		if err := errors.Join(t.plugPlain(i), t.loadPlain(i)); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func newTree(dir string) *Tree {
	return &Tree{
		Root: dir, Halfway: func(string) {},
		loaded: map[int]*loaded{}, plain: map[int]*plain{}, unplugged: map[int]bool{}, numbers: map[string]map[int]bool{},
		alveos: map[int]*loaded{}, unpluggedAlveos: map[int]bool{},
	}
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

// take gives a card the lowest number of a kind that is free.
func (t *Tree) take(l *loaded, kind string) int {
	used := t.numbers[kind]
	if used == nil {
		used = map[int]bool{}
		t.numbers[kind] = used
	}
	n := 0
	for used[n] {
		n++
	}
	used[n] = true
	l.numbers = append(l.numbers, number{kind, n})
	return n
}

// card is a described card, by index.
func (t *Tree) card(i int) (Card, error) {
	if t.machine.Cards == nil {
		return Card{}, errCaptured
	}
	if i < 0 || i >= len(t.machine.Cards) {
		return Card{}, fmt.Errorf("there is no card %d", i)
	}
	return t.machine.Cards[i], nil
}
