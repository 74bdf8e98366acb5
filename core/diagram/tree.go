package diagram

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// How much of a tree is shown, unless it is wide.
const (
	// plainUnits is how many units there may be for each to have a line.
	plainUnits = 32
	// maxGroups is how many groups side by side have lines.
	maxGroups = 16
)

// Tree prints the units of a resource as the links group them; by NUMA nodes and
// physical devices where the links make no hierarchy.
func Tree(w io.Writer, t *Topology, size Size) {
	fmt.Fprintln(w, title(t))
	if len(t.Devices) == 0 {
		return
	}
	p := &treePrinter{w: w, links: byWeight(t.Links), units: map[string]Unit{}, wide: size == Wide}
	for _, d := range t.Devices {
		for _, u := range d.Units {
			p.units[u.ID] = u
		}
	}
	root := t.Tree
	if root == nil {
		fmt.Fprintln(w, "(The links make no tree: these are NUMA nodes and devices; the matrix has the links.)")
		root = placesOf(t)
	}
	p.fold = !p.wide && len(p.units) > plainUnits
	p.group(*root, p.name(*root, 0), "")
}

// treePrinter prints groups, each line behind the branches above it.
type treePrinter struct {
	w     io.Writer
	links map[int64]Link
	units map[string]Unit
	wide  bool
	// fold has one line for all units of a group that are in the same state.
	fold bool
}

// group prints a group, on the line first, and all below, behind rest.
func (p *treePrinter) group(g Group, first, rest string) {
	fmt.Fprintln(p.w, first)
	leaves := p.leaves(g.Units)
	shown := g.Groups
	if !p.wide && len(shown) > maxGroups {
		shown = shown[:maxGroups]
	}
	more := ""
	if left := g.Groups[len(shown):]; len(left) > 0 {
		more = fmt.Sprintf("… %s more with %s; --wide has all", count(len(left), "group"), p.sum(left))
	}
	lines := len(leaves) + len(shown)
	branch := func(i int) (string, string) {
		if i < lines-1 || more != "" {
			return rest + "├─ ", rest + "│  "
		}
		return rest + "└─ ", rest + "   "
	}
	for i, leaf := range leaves {
		lead, _ := branch(i)
		fmt.Fprintln(p.w, lead+leaf)
	}
	for i, child := range shown {
		lead, below := branch(len(leaves) + i)
		p.group(child, lead+p.name(child, g.Weight), below)
	}
	if more != "" {
		fmt.Fprintln(p.w, rest+"└─ "+more)
	}
}

// name says what a group is: where it is, and its links if they are better than those
// of the group around it.
func (p *treePrinter) name(g Group, around int64) string {
	parts := slices.Clone(g.Names)
	if l, ok := p.links[g.Weight]; ok && g.Weight > around {
		parts = append(parts, words(l))
	}
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, ": ")
}

// leaves are the lines of units.
func (p *treePrinter) leaves(ids []string) []string {
	var lines []string
	if !p.fold {
		for _, id := range ids {
			lines = append(lines, id+p.note(id))
		}
		return lines
	}
	for _, s := range stateWords {
		var in []string
		for _, id := range ids {
			if p.units[id].State == s.state {
				in = append(in, id)
			}
		}
		if len(in) > 0 {
			lines = append(lines, fmt.Sprintf("%d %s: %s", len(in), s.words, span(in)))
		}
	}
	return lines
}

// note is what there is to say of a unit that is not free.
func (p *treePrinter) note(id string) string {
	u := p.units[id]
	switch {
	case u.State == Free || u.State == "":
		return ""
	case u.Holder != "":
		return fmt.Sprintf(" (%s, held by %s)", stateWord(u.State), u.Holder)
	}
	return " (" + stateWord(u.State) + ")"
}

// span is all of two, or the first and the last.
func span(ids []string) string {
	if len(ids) <= 2 {
		return strings.Join(ids, " ")
	}
	return ids[0] + " … " + ids[len(ids)-1]
}

// sum is how many units groups have, and how they are.
func (p *treePrinter) sum(groups []Group) string {
	c := counts{}
	var walk func(Group)
	walk = func(g Group) {
		for _, id := range g.Units {
			c.add(p.units[id].State)
		}
		for _, child := range g.Groups {
			walk(child)
		}
	}
	for _, g := range groups {
		walk(g)
	}
	return fmt.Sprintf("%s (%s)", count(c.all(), "unit"), c)
}

// placesOf is where devices are: on NUMA nodes, and there in physical devices.
func placesOf(t *Topology) *Group {
	root := &Group{}
	for _, d := range t.Devices {
		place := "NUMA unknown"
		if len(d.NUMANodes) > 0 {
			place = "NUMA " + numa(d.NUMANodes)
		}
		node := child(root, place)
		if d.Parent != "" || len(d.Units) > 1 {
			node = child(node, "device "+cmp.Or(d.Parent, d.ID))
		}
		for _, u := range d.Units {
			node.Units = append(node.Units, u.ID)
		}
	}
	return root
}

// child is the group of a name in another, made if it is not there.
func child(g *Group, name string) *Group {
	i := slices.IndexFunc(g.Groups, func(c Group) bool { return c.Names[0] == name })
	if i < 0 {
		i = len(g.Groups)
		g.Groups = append(g.Groups, Group{Names: []string{name}})
	}
	return &g.Groups[i]
}
