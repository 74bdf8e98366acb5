package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/accelmux/accelmux/backends/amd/drm"
	"github.com/accelmux/accelmux/backends/amd/kfd"
	"github.com/accelmux/accelmux/backends/pci"
)

// part is a KFD node with its DRM device.
type part struct {
	node   kfd.Node
	device drm.Device
	index  int
}

// assemble makes GPUs of the cards and the nodes.
func (j *join) assemble(class drm.Class, topology kfd.Topology) []GPU {
	j.used = map[int]bool{}
	byRender := map[int]drm.Device{}
	for _, d := range class.Devices {
		if d.Render != drm.None {
			byRender[d.Render] = d
		}
	}
	parts := map[*card][]part{}
	for _, n := range topology.Nodes {
		if !n.IsGPU() {
			continue
		}
		d, c, err := j.place(n, byRender)
		if err != nil {
			j.problem(fmt.Sprintf("KFD node %d", n.Number), true, err)
			continue
		}
		parts[c] = append(parts[c], part{node: n, device: d})
	}
	var gpus []GPU
	for _, c := range j.sorted() {
		nodes := j.unique(parts[c])
		if len(nodes) == 0 {
			if g, ok := j.graphics(c, class); ok {
				gpus = append(gpus, g)
				continue
			}
		}
		g, err := j.build(c, nodes)
		if err != nil {
			j.problem(c.at.Address.String(), true, err)
			continue
		}
		gpus = append(gpus, g)
	}
	connect(gpus, topology)
	return gpus
}

// unique returns a card's nodes without those that share a render node: the kernel does not
// report which of them it is of.
func (j *join) unique(parts []part) []part {
	count := map[int]int{}
	for _, p := range parts {
		count[p.device.Render]++
	}
	return slices.DeleteFunc(parts, func(p part) bool {
		n := count[p.device.Render]
		if n > 1 {
			j.problem(fmt.Sprintf("KFD node %d", p.node.Number), true, fmt.Errorf("%d nodes have the render node renderD%d", n, p.device.Render))
		}
		return n > 1
	})
}

// place finds the DRM device and the card of a node. Its render node leads to the device.
// The card is that device, or for a platform device the one with the node's unique ID
// or in the node's slot: kernels from 6.16 on report another unique ID for a partition.
func (j *join) place(n kfd.Node, byRender map[int]drm.Device) (drm.Device, *card, error) {
	none := func(form string, args ...any) (drm.Device, *card, error) {
		return drm.Device{}, nil, fmt.Errorf(form, args...)
	}
	if n.RenderMinor == 0 {
		return none("it has no render node")
	}
	d, ok := byRender[int(n.RenderMinor)]
	if !ok {
		return none("its render node renderD%d is not among DRM's devices", n.RenderMinor)
	}
	var named *card // by the unique ID
	for _, c := range j.sorted() {
		if c.uniqueID != 0 && c.uniqueID == n.UniqueID {
			named = c
		}
	}
	c := named
	switch {
	case d.IsPCI:
		c = j.cards[d.Address]
	case !d.IsPartition():
		return none("its render node renderD%d is of %q, which is no GPU of AMD's", n.RenderMinor, d.Name)
	case c == nil:
		at, err := j.inSlot(n)
		if err != nil {
			return drm.Device{}, nil, err
		}
		c = at
	}
	switch {
	case c == nil:
		return none("its render node renderD%d is of %s, which is not among the cards of the driver amdgpu that answer", n.RenderMinor, d.Name)
	case !isAt(n, c.at.Address):
		return none("it reports the address %s, but %s leads to %s", location(n), d.Name, c.at.Address)
	case named != nil && named != c:
		return none("it has the unique_id of %s, but its render node renderD%d is of %s", named.at.Address, n.RenderMinor, c.at.Address)
	}
	return d, c, nil
}

// inSlot returns the card in the slot of a node.
func (j *join) inSlot(n kfd.Node) (*card, error) {
	var found *card
	for _, c := range j.sorted() {
		if !isAt(n, c.at.Address) {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("it reports the address %s, where %s and %s are", location(n), found.at.Address, c.at.Address)
		}
		found = c
	}
	if found == nil {
		return nil, fmt.Errorf("it reports the address %s, where no card of the driver amdgpu answers", location(n))
	}
	return found, nil
}

// slot returns the PCI address of a node without the function, where a partition's number
// may be.
func slot(n kfd.Node) pci.Address {
	return pci.Address{Domain: n.Domain, Bus: uint8(n.Location >> 8), Device: uint8(n.Location >> 3 & 0x1f)}
}

func location(n kfd.Node) string {
	at := slot(n)
	if !n.HasDomain {
		return fmt.Sprintf("bus %02x device %02x", at.Bus, at.Device)
	}
	return fmt.Sprintf("%04x:%02x:%02x", at.Domain, at.Bus, at.Device)
}

// isAt reports whether a node can be at an address.
func isAt(n kfd.Node, at pci.Address) bool {
	s := slot(n)
	return s.Bus == at.Bus && s.Device == at.Device && (!n.HasDomain || s.Domain == at.Domain)
}

// build makes a GPU of a card and its nodes.
func (j *join) build(c *card, parts []part) (GPU, error) {
	if len(parts) == 0 {
		return GPU{}, errors.New("the driver has the card, but there is no KFD node of it that can be used: it is starting or being switched, or computing on it is not supported")
	}
	limit := splits[cmp.Or(c.compute, whole)]
	known := models[c.at.ID]
	if c.compute == "CPX" && known.xccs > 0 {
		limit = known.xccs
	}
	if len(parts) > limit {
		return GPU{}, fmt.Errorf("KFD has %d nodes of the card, which is in a mode (%s) with %d: it is being switched", len(parts), cmp.Or(c.compute, "none"), limit)
	}
	if err := number(parts, c.at.Address, limit); err != nil {
		return GPU{}, err
	}
	switch id := cardID(c, parts); {
	case c.noUniqueID:
		c.uniqueID = commonID(parts)
	case id != 0 && id != c.uniqueID:
		return GPU{}, fmt.Errorf("its unique_id is %016x, but KFD has %016x for it, so one of the two is wrong: see the kernel's log", c.uniqueID, id)
	}
	g := j.gpuOf(c)
	g.Hive = parts[0].node.Hive
	exact := c.compute != "CPX" || known.xccs > 0
	if exact && len(parts) < limit {
		j.problem(c.at.Address.String(), false, fmt.Errorf("only %d of the %d partitions of mode %s are there", len(parts), limit, c.compute))
	}
	for _, p := range parts {
		made := Partition{
			ID: PartitionID(g.ID, g.Compute, p.index), Index: p.index, ComputeUnits: p.node.ComputeUnits(), SIMDs: p.node.SIMDs,
			XCCs: p.node.XCCs, GFX: cmp.Or(p.node.GFX(), known.gfx), VRAM: p.node.VRAM, Card: p.device.Card, Render: p.device.Render,
			Node: p.node.Number, KFDID: p.node.ID, UniqueID: p.node.UniqueID,
		}
		if made.VRAM == 0 && exact {
			made.VRAM = c.vram / uint64(limit)
		}
		j.used[made.Render] = true
		g.Partitions = append(g.Partitions, made)
	}
	g.Family = family(g.Partitions[0].GFX)
	g.Integrated = isIntegrated(c.at.ID, g.Partitions[0].GFX)
	return g, nil
}

// gpuOf returns what a card itself reports.
func (j *join) gpuOf(c *card) GPU {
	return GPU{
		ID: ID(c.uniqueID, c.at.Address), PCI: c.at, UniqueID: c.uniqueID, Firmware: c.firmware,
		Compute: c.compute, Memory: c.memory, ComputeModes: c.computeModes, MemoryModes: c.memoryModes, VRAM: c.vram,
		Product: cmp.Or(c.product, j.names.of(c.at.ID, c.revision), models[c.at.ID].name, fmt.Sprintf("AMD GPU %#04x", c.at.ID)),
	}
}

// number sets the indices of a card's nodes, and sorts them. The kernel reports them in
// location_id, in one of two places. Where it does not, DRM devices were made in the order
// of partitions, with rising minors, the card's own first.
func number(parts []part, at pci.Address, limit int) error {
	slices.SortFunc(parts, func(a, b part) int {
		if a.device.IsPCI != b.device.IsPCI {
			if a.device.IsPCI {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.device.Render, b.device.Render)
	})
	if limit == 1 && !parts[0].device.IsPCI {
		return fmt.Errorf("the render node of the whole card is of %s", parts[0].device.Name)
	}
	reported := true
	seen := map[int]bool{}
	for i := range parts {
		l := parts[i].node.Location
		parts[i].index = int(cmp.Or(l>>28, l&7^uint32(at.Function)))
		// The card's own DRM device is that of partition 0, and of no other.
		if index := parts[i].index; seen[index] || index >= limit || (index == 0) != parts[i].device.IsPCI {
			reported = false
		}
		seen[parts[i].index] = true
	}
	if !reported {
		for i := range parts {
			parts[i].index = i
		}
		if !parts[0].device.IsPCI {
			return errors.New("KFD does not report which partitions its nodes are, and the first is missing, from which they would be counted")
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.index, b.index) })
	return nil
}

// cardID returns the unique ID that KFD has for the card itself; 0 if there is none, or it may be
// that of a compute die: from 6.16 on KFD reports the first die's for each partition, and on some
// releases also for a whole card with several dies (node_show in kfd_topology.c).
func cardID(c *card, parts []part) uint64 {
	if len(parts) == 1 && (c.compute != "" || parts[0].node.XCCs > 1) {
		return 0
	}
	return commonID(parts)
}

// commonID returns the unique ID that all nodes have; 0 if there is none.
func commonID(parts []part) uint64 {
	id := parts[0].node.UniqueID
	if slices.ContainsFunc(parts, func(p part) bool { return p.node.UniqueID != id }) {
		return 0
	}
	return id
}

// connect adds the links between partitions that were found.
func connect(gpus []GPU, topology kfd.Topology) {
	ids, links := map[int]string{}, map[int][]kfd.Link{}
	for _, g := range gpus {
		for _, p := range g.Partitions {
			ids[p.Node] = p.ID
		}
	}
	for _, n := range topology.Nodes {
		links[n.Number] = n.Links
	}
	for _, g := range gpus {
		for i := range g.Partitions {
			p := &g.Partitions[i]
			p.Links = make([]Link, 0, len(links[p.Node]))
			for _, l := range links[p.Node] {
				to, ok := ids[l.To]
				last := len(p.Links) - 1
				// They are by node, the shortest first.
				if !ok || (last >= 0 && p.Links[last].To == to) {
					continue
				}
				p.Links = append(p.Links, Link{To: to, Kind: l.Kind, Weight: l.Weight})
			}
			slices.SortFunc(p.Links, func(a, b Link) int { return cmp.Compare(a.To, b.To) })
		}
	}
}
