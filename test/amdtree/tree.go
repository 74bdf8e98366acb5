package amdtree

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/accelmux/accelmux/test/sysroot"
)

// Tree is a tree on disk. Its methods can be called by one goroutine at a time,
// while others read the files.
type Tree struct {
	// Root has the directories sys and dev.
	Root string
	// Halfway is called at each state in between that a kernel shows while something
	// changes, with a word for it; see README.md. It may read the files, and calls no
	// method of the tree.
	Halfway func(state string)
	// Sudden changes KFD's nodes in one moment: without it a process that stands still in
	// the middle of a change shows no nodes at all for longer than any kernel does.
	Sudden bool

	mu         sync.Mutex
	machine    Machine
	loaded     []*loaded // cards that have a driver, in the order in which they were found
	generation uint64
	staging    string
	staged     int
}

// loaded is a card with the minors that the driver got for it.
type loaded struct {
	GPU
	// drm are its DRM devices: its own first, then those of its platform devices.
	drm []drmDevice
	// hwmon is its number among the sensors.
	hwmon int
}

type drmDevice struct {
	card, render int
	// platform is the name of the platform device; empty for the card's own.
	platform string
}

// Write makes the tree of a machine in a directory, with all cards plugged in and
// the driver loaded. The directory must exist and have no tree.
func Write(dir string, m Machine) (*Tree, error) {
	m.GPUs = slices.Clone(m.GPUs)
	m.Sockets = max(m.Sockets, 1)
	for i := range m.GPUs {
		if err := m.GPUs[i].complete(m); err != nil {
			return nil, err
		}
	}
	t := &Tree{Root: dir, machine: m, staging: filepath.Join(dir, ".staging"), generation: 1, Halfway: func(string) {}}
	w := newWriter(dir)
	w.Dir("sys/class/drm", "sys/class/hwmon", "sys/bus/pci/devices", "sys/bus/pci/drivers/amdgpu", "sys/dev/char",
		"sys/devices/platform", "sys/devices/virtual/kfd/kfd/topology/nodes", "sys/class/kfd", "sys/module/amdgpu/drivers",
		"dev/dri", ".staging")
	w.File("sys/class/drm/version", "drm 1.1.0 20060810\n")
	w.Link("sys/module/amdgpu/drivers/pci:amdgpu", "../../../bus/pci/drivers/amdgpu")
	w.Link("sys/class/kfd/kfd", "../../devices/virtual/kfd/kfd")
	w.File("sys/devices/virtual/kfd/kfd/topology/system_properties",
		"platform_oem 4777524452235890003\nplatform_id 85015745549651\nplatform_rev 2\n")
	if m.DriverVersion != "" {
		w.File("sys/module/amdgpu/version", m.DriverVersion+"\n")
	}
	if m.DriverSource != "" {
		w.File("sys/module/amdgpu/srcversion", m.DriverSource+"\n")
	}
	w.Node("dev/kfd", 511, 0)
	others(&w, m)
	for i := range m.GPUs {
		w.function(m, m.GPUs[i])
	}
	if w.Err != nil {
		return nil, w.Err
	}
	if m.captured != nil {
		return t, t.adopt(m.captured)
	}
	for i := range m.GPUs {
		if err := t.load(i); err != nil {
			return nil, err
		}
	}
	return t, t.publish(false)
}

// New makes the tree of a machine in a directory that goes when the test ends.
func New(tb testing.TB, m Machine) *Tree {
	tb.Helper()
	tree, err := Write(sysroot.TempDir(tb), m)
	if err != nil {
		tb.Fatal(err)
	}
	return tree
}

func (g *GPU) complete(m Machine) error {
	if g.Address.Bus == 0 {
		return fmt.Errorf("GPU %s is on bus 0, where no root port can be above it", g.Address)
	}
	if m.OldKernel {
		g.Compute, g.Memory = "", ""
	} else if len(g.Model.Compute) > 0 {
		if g.Compute == "" {
			g.Compute = "SPX"
		}
		if g.Memory == "" {
			g.Memory = "NPS1"
		}
	}
	if g.Socket >= m.Sockets {
		return fmt.Errorf("GPU %s is at socket %d of %d", g.Address, g.Socket, m.Sockets)
	}
	_, err := g.Model.partitions(g.Compute)
	return err
}

// Sysfs is the root of sysfs.
func (t *Tree) Sysfs() string { return filepath.Join(t.Root, "sys") }

// Devfs is the root of the device nodes.
func (t *Tree) Devfs() string { return filepath.Join(t.Root, "dev") }

// Machine is what is plugged in now.
func (t *Tree) Machine() Machine {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.machine
	m.GPUs = slices.Clone(m.GPUs)
	return m
}

// Device is the path of a card's PCI directory below the root, without links.
func (t *Tree) Device(gpu int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return filepath.Join(t.Root, t.machine.GPUs[gpu].path())
}

// Node is the path of the KFD node of a partition; empty if there is none.
func (t *Tree) Node(gpu, partition int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.machine.captured != nil {
		for _, n := range t.machine.captured.nodes {
			if n.gpu == gpu && n.index == partition {
				return filepath.Join(t.Root, nodesDir, strconv.Itoa(n.number))
			}
		}
		return ""
	}
	for number, n := range t.nodes() {
		if n.gpu != nil && n.gpu.Address == t.machine.GPUs[gpu].Address && n.index == partition {
			return filepath.Join(t.Root, nodesDir, strconv.Itoa(number))
		}
	}
	return ""
}

// Minors are the card and render minors of a card's DRM devices: its own first, then
// those of its platform devices.
func (t *Tree) Minors(gpu int) (cards, renders []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.loaded {
		if l.Address == t.machine.GPUs[gpu].Address {
			for _, d := range l.drm {
				cards, renders = append(cards, d.card), append(renders, d.render)
			}
		}
	}
	return cards, renders
}

// Spoil damages a file of the tree, whose name begins with sys/ or dev/.
func (t *Tree) Spoil(name string, damage sysroot.Damage) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return damage(filepath.Join(t.Root, name))
}

// writer makes the files of a tree.
type writer struct{ sysroot.Writer }

func newWriter(root string) writer { return writer{sysroot.Writer{Root: root}} }
