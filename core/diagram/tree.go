package diagram

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Limits of a tree that is not wide.
const (
	// plainUnits is the number of units up to which each has a line.
	plainUnits = 32
	// maxGroups is the number of groups of one level that are shown.
	maxGroups = 16
)

// Tree prints the units of a resource as grouped by the links; by NUMA nodes and physical
// devices if the links are not a hierarchy.
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
		fmt.Fprintln(w, "(The links are not a hierarchy: these are NUMA nodes and devices; the matrix has the links.)")
		root = byNUMA(t)
	}
	p.fold = !p.wide && len(p.units) > plainUnits
	p.group(*root, p.name(*root, 0), "")
}

// treePrinter prints groups.
type treePrinter struct {
	w     io.Writer
	links map[int64]Link
	units map[string]Unit
	wide  bool
	// fold: all units of a group in the same state share a line.
	fold bool
}

// group prints a group: its line is first, and the lines below it begin with rest.
func (p *treePrinter) group(g Group, first, rest string) {
	fmt.Fprintln(p.w, first)
	leaves := p.leaves(g.Units)
	shown := g.Groups
	if !p.wide && len(shown) > maxGroups {
		shown = shown[:maxGroups]
	}
	more := ""
	if left := g.Groups[len(shown):]; len(left) > 0 {
		more = fmt.Sprintf("… %s more with %s; --wide shows all", count(len(left), "group"), p.sum(left))
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

// name describes a group: its position, and its links if they are better than those of the
// enclosing group.
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

// leaves returns the lines of units.
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

// note describes a unit that is not free.
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

// span returns one or two IDs, or the first and the last of more.
func span(ids []string) string {
	if len(ids) <= 2 {
		return strings.Join(ids, " ")
	}
	return ids[0] + " … " + ids[len(ids)-1]
}

// sum returns the number of units in groups, and their states.
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

// byNUMA groups units by NUMA nodes and physical devices.
func byNUMA(t *Topology) *Group {
	root := &Group{}
	for _, d := range t.Devices {
		node := "NUMA unknown"
		if len(d.NUMANodes) > 0 {
			node = "NUMA " + numa(d.NUMANodes)
		}
		group := child(root, node)
		if d.Parent != "" || len(d.Units) > 1 {
			group = child(group, "device "+cmp.Or(d.Parent, d.ID))
		}
		for _, u := range d.Units {
			group.Units = append(group.Units, u.ID)
		}
	}
	return root
}

// child returns the group with a name in another group; it adds the group if necessary.
func child(g *Group, name string) *Group {
	i := slices.IndexFunc(g.Groups, func(c Group) bool { return c.Names[0] == name })
	if i < 0 {
		i = len(g.Groups)
		g.Groups = append(g.Groups, Group{Names: []string{name}})
	}
	return &g.Groups[i]
}
