package amdtree

import (
	"archive/tar"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/test/sysroot"
)

// capture is a captured KFD topology.
type capture struct {
	files map[string]string // by path below the topology directory
	nodes []capturedNode
	count int // of all nodes
}

// capturedNode is a node of a GPU.
type capturedNode struct {
	number int
	gpu    int // index in Machine.GPUs
	index  int // of the partition
	render int
}

// Capture is the machine whose KFD topology was captured: a .tar.gz with the
// directory "nodes" somewhere in it. What Write makes of it has the KFD side as it
// was captured until something is changed; README.md says by which rules the other
// sides are made.
func Capture(archive string) (Machine, error) {
	c := &capture{files: map[string]string{}}
	if err := c.unpack(archive); err != nil {
		return Machine{}, err
	}
	m := Machine{Cards: 1, captured: c}
	byID := map[uint64]int{}
	for c.files[fmt.Sprintf("nodes/%d/properties", c.count)] != "" {
		number := c.count
		c.count++
		p, err := parse(c.files[fmt.Sprintf("nodes/%d/properties", number)])
		if err != nil {
			return Machine{}, err
		}
		if p["drm_render_minor"] == 0 {
			m.Sockets++
			continue
		}
		_, hasDomain := p["domain"]
		m.OldKernel = m.OldKernel || !hasDomain
		at, index := address(p)
		gpu, known := byID[p["unique_id"]]
		if !known {
			g, err := card(p, at)
			if err != nil {
				return Machine{}, err
			}
			for slices.ContainsFunc(m.GPUs, func(o GPU) bool { return o.Address == g.Address }) {
				g.Address.Bus += 0x10
			}
			g.Socket = c.socket(number)
			gpu = len(m.GPUs)
			byID[g.UniqueID] = gpu
			m.GPUs = append(m.GPUs, g)
		}
		if moved := m.GPUs[gpu].Address.Bus; moved != at.Bus {
			c.move(number, p["location_id"], uint64(moved)<<8|p["location_id"]&0xff)
		}
		if index > 0 {
			m.GPUs[gpu].Compute, m.GPUs[gpu].Memory = "CPX", "NPS4"
		}
		c.nodes = append(c.nodes, capturedNode{number, gpu, index, int(p["drm_render_minor"])})
	}
	if len(c.nodes) == 0 {
		return Machine{}, fmt.Errorf("the capture %s has no GPU", archive)
	}
	return m, nil
}

func (c *capture) unpack(archive string) error {
	return sysroot.Unpack(archive, func(h *tar.Header, content string) {
		_, name, ok := strings.Cut(h.Name, "/nodes/")
		if h.Typeflag == tar.TypeReg && ok && !strings.Contains(name, "..") && !strings.Contains(name, "/caches/") {
			c.files["nodes/"+name] = content
		}
	})
}

func parse(text string) (map[string]uint64, error) {
	p := map[string]uint64{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("captured line %q: %w", line, err)
		}
		p[key] = n
	}
	return p, nil
}

// address is the PCI address that KFD says, and the number of the partition in it.
func address(p map[string]uint64) (pci.Address, int) {
	id := p["location_id"]
	at := pci.Address{Domain: uint32(p["domain"]), Bus: uint8(id >> 8), Device: uint8(id >> 3 & 0x1f)}
	return at, int(id & 7)
}

func card(p map[string]uint64, at pci.Address) (GPU, error) {
	for _, m := range []Model{Vega10, MI210, MI300X} {
		if uint64(m.Device) == p["device_id"] {
			return GPU{Model: m, Address: at, UniqueID: p["unique_id"], Hive: p["hive_id"]}, nil
		}
	}
	return GPU{}, fmt.Errorf("no model has the captured device_id %#x", p["device_id"])
}

// socket is the CPU node that a node has a PCIe link to.
func (c *capture) socket(number int) int {
	for i := 0; ; i++ {
		text, ok := c.files[fmt.Sprintf("nodes/%d/io_links/%d/properties", number, i)]
		if !ok {
			return 0
		}
		if l, err := parse(text); err == nil && l["type"] == 2 {
			return int(l["node_to"])
		}
	}
}

// move rewrites a node's location.
func (c *capture) move(number int, from, to uint64) {
	name := fmt.Sprintf("nodes/%d/properties", number)
	c.files[name] = strings.Replace(c.files[name], fmt.Sprintf("location_id %d\n", from), fmt.Sprintf("location_id %d\n", to), 1)
}

// adopt loads the driver with the minors of the capture, and shows the captured
// nodes.
func (t *Tree) adopt(c *capture) error {
	for gpu, g := range t.machine.GPUs {
		l := &loaded{GPU: g, hwmon: gpu}
		for _, n := range c.nodes {
			if n.gpu == gpu {
				l.drm = append(l.drm, drmDevice{card: n.render - firstRender + t.machine.Cards, render: n.render})
			}
		}
		t.loaded = append(t.loaded, l)
		for i := range l.drm[1:] {
			l.drm[i+1].platform = t.platform()
		}
		if err := t.show(l); err != nil {
			return err
		}
	}
	stage := fmt.Sprintf(".staging/nodes%d", t.stage())
	w := newWriter(t.Root)
	for name, text := range c.files {
		w.File(filepath.Join(stage, strings.TrimPrefix(name, "nodes/")), text)
	}
	if w.Err != nil {
		return w.Err
	}
	return t.swap(stage, c.count, false)
}
