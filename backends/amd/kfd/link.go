package kfd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"

	"github.com/accelmux/accelmux/backends/sysfs"
)

// Link is a connection from one node to another.
type Link struct {
	// To is the number of the other node.
	To   int
	Kind LinkKind
	// Weight is the driver's distance: lower is closer.
	Weight uint32
	// Peer: the link is one of p2p_links, which the driver makes of others, over
	// the CPUs.
	Peer bool
}

// LinkKind is the kind of a link, with the numbers of the CRAT table
// (drivers/gpu/drm/amd/amdkfd/kfd_crat.h).
type LinkKind uint32

// Kinds of links between CPUs and AMD GPUs.
const (
	HyperTransport LinkKind = 1
	PCIe           LinkKind = 2
	QPI            LinkKind = 5
	XGMI           LinkKind = 11
)

// String returns the kind in words.
func (k LinkKind) String() string {
	switch k {
	case HyperTransport:
		return "HyperTransport"
	case PCIe:
		return "PCIe"
	case QPI:
		return "QPI"
	case XGMI:
		return "XGMI"
	}
	return fmt.Sprintf("link kind %d", uint32(k))
}

// linkLimit is above the length of a link's properties: a dozen numbers of 32 bits.
// A machine in CPX has 4,000 of them, so the buffer is small.
const linkLimit = 1<<10 - 1

// readLinks adds the links of a directory, which not all nodes have, by node. It returns what
// is left out.
func (n *Node) readLinks(dir string, peer bool) []Problem {
	wrong := func(err error) Problem { return Problem{Node: n.Number, Link: true, Err: err} }
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && len(entries) > maxLinks {
		err = fmt.Errorf("%s has %d links, more than the %d that can be", dir, len(entries), maxLinks)
	}
	if err != nil {
		return []Problem{wrong(err)}
	}
	var problems []Problem
	p := properties{values: make(map[string]uint64, 8)} // of one link after the other
	if n.Links == nil {
		n.Links = make([]Link, 0, len(entries))
	}
	for _, e := range entries {
		file := dir + "/" + e.Name() + "/properties" // filepath.Join would clean 4,000 clean paths
		text, err := sysfs.Read(file, linkLimit)
		if err != nil {
			problems = append(problems, wrong(err))
			continue
		}
		l, err := parseLink(&p, text, n.Number)
		if err != nil {
			problems = append(problems, wrong(fmt.Errorf("%s: %w", file, err)))
			continue
		}
		l.Peer = peer
		n.Links = append(n.Links, l)
	}
	slices.SortFunc(n.Links, func(a, b Link) int { return cmp.Or(cmp.Compare(a.To, b.To), cmp.Compare(a.Weight, b.Weight)) })
	return problems
}

// parseLink reads the properties of a link that starts at a node, and replaces those that p
// had. The driver writes flags last.
func parseLink(p *properties, text []byte, from int) (Link, error) {
	p.err = nil
	clear(p.values)
	if err := p.parse(text, "type", "node_from", "node_to", "weight", "flags"); err != nil {
		return Link{}, err
	}
	if start := p.values["node_from"]; start != uint64(from) {
		return Link{}, fmt.Errorf("it starts at node %d", start)
	}
	l := Link{
		To: int(p.number("node_to", math.MaxInt32)), Kind: LinkKind(p.number("type", math.MaxUint32)),
		Weight: p.number("weight", math.MaxUint32),
	}
	if p.err == nil && l.To == from {
		return Link{}, fmt.Errorf("it ends where it starts, at node %d", from)
	}
	return l, p.err
}
