package diagram

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Dot prints resources as one undirected graph in graphviz's DOT language, with a box
// for each NUMA node.
func Dot(w io.Writer, all []Topology, size Size) {
	fmt.Fprintln(w, "graph accelmux {")
	fmt.Fprintln(w, `  graph [fontname="sans-serif", layout="fdp", overlap=false, splines=true];`)
	fmt.Fprintln(w, `  node [fontname="sans-serif", shape=box, style="rounded,filled", fillcolor=white];`)
	fmt.Fprintln(w, `  edge [fontname="sans-serif", fontsize=9];`)
	for i := range all {
		dotResource(w, newSheet(&all[i], size), i)
	}
	fmt.Fprintln(w, "}")
}

func dotResource(w io.Writer, s *sheet, number int) {
	fmt.Fprintf(w, "  subgraph cluster_%d {\n    label=%s;\n", number, dotText(title(s.Topology)+s.hidden()))
	for i, node := range s.numaGroups() {
		fmt.Fprintf(w, "    subgraph cluster_%d_%d {\n      label=%s; color=gray;\n", number, i, dotText(node.name))
		for _, r := range node.rows {
			fmt.Fprintf(w, "      r%d_%d [label=%s, fillcolor=%q];\n", number, r,
				dotText(s.rows[r].label, s.states(s.rows[r].devices).String()), s.fill(r))
		}
		fmt.Fprintln(w, "    }")
	}
	for _, l := range s.lines() {
		fmt.Fprintf(w, "    r%d_%d -- r%d_%d [label=%s, color=%q, penwidth=%d];\n", number, l.a, number, l.b, dotText(l.code), l.color, l.width)
	}
	fmt.Fprintln(w, "  }")
}

// dotText returns lines as a quoted string of DOT.
func dotText(lines ...string) string {
	for i, line := range lines {
		lines[i] = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ").Replace(line)
	}
	return `"` + strings.Join(lines, `\n`) + `"`
}

// hidden describes what a drawing omits.
func (s *sheet) hidden() string {
	var codes []string
	for _, e := range s.entries {
		if !e.near {
			codes = append(codes, e.code)
		}
	}
	text := ""
	if len(codes) > 0 {
		text += "; not drawn: " + strings.Join(codes, ", ")
	}
	if s.left > 0 {
		text += "; left out: " + count(s.left, "device")
	}
	return text
}

// numaGroup is a NUMA node, or a set of them, and its rows.
type numaGroup struct {
	name string
	rows []int
}

// numaGroups returns the NUMA nodes, in the order of the rows.
func (s *sheet) numaGroups() []numaGroup {
	var out []numaGroup
	for i, r := range s.rows {
		name := "NUMA " + numa(s.Devices[r.devices[0]].NUMANodes)
		if len(s.Devices[r.devices[0]].NUMANodes) == 0 {
			name = "NUMA node unknown"
		}
		at := slices.IndexFunc(out, func(g numaGroup) bool { return g.name == name })
		if at < 0 {
			at = len(out)
			out = append(out, numaGroup{name: name})
		}
		out[at].rows = append(out[at].rows, i)
	}
	return out
}

// line is a drawn link between two rows.
type line struct {
	a, b  int
	code  string
	color string
	width int
}

// lines returns the near links among rows, the worst first, so that the best are on top.
func (s *sheet) lines() []line {
	var out []line
	for i := len(s.entries) - 1; i >= 0; i-- {
		e := s.entries[i]
		if !e.near {
			continue
		}
		for a := range s.rows {
			for b := a + 1; b < len(s.rows); b++ {
				if s.cell(a, b) == e.code {
					out = append(out, line{a: a, b: b, code: e.code, color: e.color, width: width(e)})
				}
			}
		}
	}
	return out
}

// width returns the width of a line, by the number of parallel links.
func width(e entry) int {
	parallel, err := strconv.Atoi(strings.TrimLeft(strings.SplitN(e.code, ":", 2)[0], "ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
	if err != nil {
		return 1
	}
	return min(max(1, parallel), 4)
}

// The colors of devices by their units.
const (
	fillFree      = "#c8e6c9"
	fillPartly    = "#fff9c4"
	fillHeld      = "#e0e0e0"
	fillUnhealthy = "#ffcdd2"
)

// fill returns the color of a row, by the states of its units.
func (s *sheet) fill(row int) string {
	c := s.states(s.rows[row].devices)
	switch {
	case c[Unhealthy] > 0:
		return fillUnhealthy
	case c[Held] == c.all():
		return fillHeld
	case c[Held] > 0:
		return fillPartly
	}
	return fillFree
}
