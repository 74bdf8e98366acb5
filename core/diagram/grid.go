package diagram

// Grid is what Matrix prints, for drawings other than text.
type Grid struct {
	Title string
	Rows  []GridRow
	// Legend has a kind of link each, the best first.
	Legend []GridLink
	// Left is the number of devices in none of the rows.
	Left int
}

// GridRow is a device, or several with the same links.
type GridRow struct {
	Label, NUMA, State string
	// Cells are the codes of the links to the device of each row.
	Cells []string
}

// GridLink is a kind of link. A code that no GridLink has is that of the device itself, ".", or of no
// known link, "-".
type GridLink struct {
	Code, Words string
	// Weight is the value of such a link in a choice; 0 if it does not count.
	Weight int64
}

// NewGrid returns the drawing of a topology.
func NewGrid(t *Topology, size Size) Grid {
	s := newSheet(t, size)
	grid := Grid{Title: title(t), Left: s.left}
	for i, r := range s.rows {
		row := GridRow{Label: r.label, NUMA: numa(s.Devices[r.devices[0]].NUMANodes), State: s.states(r.devices).String()}
		for j := range s.rows {
			row.Cells = append(row.Cells, s.cell(i, j))
		}
		grid.Rows = append(grid.Rows, row)
	}
	for _, e := range s.entries {
		grid.Legend = append(grid.Legend, GridLink{Code: e.code, Words: e.words, Weight: e.weight})
	}
	return grid
}
