package diagram

import (
	"fmt"
	"slices"
)

// Limits of a drawing that is not wide.
const (
	// plainDevices is the number of devices up to which each has a row.
	plainDevices = 16
	// maxRows is the number of rows and columns.
	maxRows = 32
)

// Size is the size of a drawing.
type Size bool

// The sizes.
const (
	// Short fits a page.
	Short Size = false
	// Wide draws everything.
	Wide Size = true
)

// row is a device, or several with the same links, NUMA nodes and parent.
type row struct {
	devices []int
	label   string
}

// sheet is a topology as it is drawn.
type sheet struct {
	*Topology
	rows []row
	// left is the number of devices in none of the rows.
	left  int
	codes map[[2]int]string // of links, by the indexes of the devices, the lower first
	*legend
}

// newSheet determines the rows of a drawing.
func newSheet(t *Topology, size Size) *sheet {
	s := &sheet{Topology: t, codes: make(map[[2]int]string, len(t.Links)), legend: newLegend(t.Links)}
	index := make(map[string]int, len(t.Devices))
	for i, d := range t.Devices {
		index[d.ID] = i
	}
	for _, l := range t.Links {
		a, ok := index[l.A]
		b, both := index[l.B]
		if ok && both {
			s.codes[[2]int{min(a, b), max(a, b)}] = s.code(l)
		}
	}
	fold := size == Short && len(t.Devices) > plainDevices
	for i := range t.Devices {
		at := -1
		if fold {
			at = slices.IndexFunc(s.rows, func(r row) bool { return s.alike(r.devices[0], i) })
		}
		if at < 0 {
			at = len(s.rows)
			s.rows = append(s.rows, row{})
		}
		s.rows[at].devices = append(s.rows[at].devices, i)
	}
	for i := range s.rows {
		s.rows[i].label = s.label(s.rows[i].devices)
	}
	if size == Short && len(s.rows) > maxRows {
		for _, r := range s.rows[maxRows:] {
			s.left += len(r.devices)
		}
		s.rows = s.rows[:maxRows]
	}
	return s
}

// alike reports whether two devices have the same links to all others.
func (s *sheet) alike(a, b int) bool {
	x, y := &s.Devices[a], &s.Devices[b]
	if x.Parent != y.Parent || x.Backend != y.Backend || !slices.Equal(x.NUMANodes, y.NUMANodes) {
		return false
	}
	for c := range s.Devices {
		if c != a && c != b && s.between(a, c) != s.between(b, c) {
			return false
		}
	}
	return true
}

// between returns the code of the link between two devices.
func (s *sheet) between(a, b int) string {
	if a == b {
		return selfCode
	}
	if code, ok := s.codes[[2]int{min(a, b), max(a, b)}]; ok {
		return code
	}
	return noneCode
}

// cell returns the code of the link between two rows; for a row and itself, that among its
// devices.
func (s *sheet) cell(i, j int) string {
	a, b := s.rows[i].devices, s.rows[j].devices
	if i == j {
		return s.between(a[0], a[len(a)-1])
	}
	return s.between(a[0], b[0])
}

// label names a device, or the first and the last of several.
func (s *sheet) label(devices []int) string {
	first := s.Devices[devices[0]].ID
	if len(devices) == 1 {
		return first
	}
	return fmt.Sprintf("%s … %s (%d)", first, s.Devices[devices[len(devices)-1]].ID, len(devices))
}

// states counts the units of devices.
func (s *sheet) states(devices []int) counts {
	c := counts{}
	for _, d := range devices {
		for _, u := range s.Devices[d].Units {
			c.add(u.State)
		}
	}
	return c
}

// counts is the number of units in each state.
type counts map[State]int

func (c counts) add(s State) { c[s]++ }

func (c counts) all() int { return c[Free] + c[Held] + c[Unhealthy] }

// stateWords are the names of the states, in the order in which they are shown.
var stateWords = []struct {
	state State
	words string
}{{Free, "free"}, {Held, "in use"}, {Unhealthy, "unhealthy"}}

// String returns "free", or "6 free, 2 in use".
func (c counts) String() string {
	text := ""
	for _, s := range stateWords {
		n := c[s.state]
		switch {
		case n == 0:
		case n == 1 && c.all() == 1:
			return s.words
		case text == "":
			text = fmt.Sprintf("%d %s", n, s.words)
		default:
			text += fmt.Sprintf(", %d %s", n, s.words)
		}
	}
	return text
}
