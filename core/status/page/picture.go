package page

import (
	"fmt"
	"math"
	"strings"

	"github.com/accelmux/accelmux/core/diagram"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/status/listing"
)

const (
	// maxDrawn is the number of units up to which the links of a resource are drawn: more take seconds.
	maxDrawn = 512
	// cellSize is the width and height of a cell of a picture, and shades how many colours links have.
	cellSize = 34
	shades   = 4
	// chartHeight is that of a chart, whose width is chartPoints.
	chartHeight = 40
)

// picture is the links of one resource: a cell for each pair of devices, the darker the better the link.
type picture struct {
	Name, Title string
	// Size is the width and height.
	Size   int
	Cells  []cell
	Rows   []diagram.GridRow
	Legend []legendLine
	Left   int
	// Note is why there is no picture.
	Note string
}

// cell is a square with a code at its center; Class is its colour.
type cell struct {
	X, Y, TextX, TextY int
	Class, Code        string
	// Words describe it.
	Words string
}

type legendLine struct{ Class, Code, Words string }

// pictures returns those of all resources with several units.
func (p *Page) pictures(r status.Report) (all []picture) {
	for _, res := range r.Resources {
		if res.Units < 2 {
			continue
		}
		if res.Units > maxDrawn {
			all = append(all, picture{Name: res.Name, Note: fmt.Sprintf("%d units are too many for a picture: accelmux topology %s", res.Units, res.Name)})
			continue
		}
		found, err := p.source.Topology(res.Name)
		if err != nil {
			continue // it is being removed, or kubelet does not know it yet
		}
		for i := range found {
			all = append(all, newPicture(&found[i]))
		}
	}
	return all
}

func newPicture(t *diagram.Topology) picture {
	if len(t.Links) == 0 {
		return picture{Name: t.Resource, Note: "no known links between its devices"}
	}
	grid := diagram.NewGrid(t, diagram.Short)
	p := picture{
		Name: t.Resource, Title: strings.TrimPrefix(grid.Title, t.Resource+": "), Size: cellSize * (len(grid.Rows) + 1),
		Rows: grid.Rows, Left: grid.Left,
	}
	unlinked := false
	class, words := map[string]string{}, map[string]string{}
	for i, l := range grid.Legend {
		text := l.Words
		if l.Weight > 0 {
			text += fmt.Sprintf(" (weight %d)", l.Weight)
		}
		class[l.Code], words[l.Code] = "l0", text
		if l.Weight > 0 {
			class[l.Code] = fmt.Sprintf("l%d", shades-min(i*shades/len(grid.Legend), shades-1))
		}
		p.Legend = append(p.Legend, legendLine{class[l.Code], l.Code, text})
	}
	put := func(x, y int, class, code, words string) {
		if len(code) > 4 {
			class += " long"
		}
		p.Cells = append(p.Cells, cell{X: x * cellSize, Y: y * cellSize, TextX: x*cellSize + cellSize/2, TextY: y*cellSize + cellSize/2, Class: class, Code: code, Words: words})
	}
	for y, row := range grid.Rows {
		put(0, y+1, "axis", fmt.Sprint(y), row.Label)
		put(y+1, 0, "axis", fmt.Sprint(y), row.Label)
		for x, code := range row.Cells {
			what, ok := words[code]
			if !ok {
				unlinked = unlinked || x != y
				put(x+1, y+1, "self", map[bool]string{true: "·", false: "–"}[x == y], map[bool]string{true: row.Label, false: "no known link"}[x == y])
				continue
			}
			put(x+1, y+1, class[code], code, fmt.Sprintf("%s and %s: %s", row.Label, grid.Rows[x].Label, what))
		}
	}
	if unlinked {
		p.Legend = append(p.Legend, legendLine{"none", "–", "no known link"})
	}
	return p
}

// chart is a value of a device, and how it changed.
type chart struct {
	Name, Text string
	// Area has the corners of a polygon in a box of chartPoints by chartHeight, the newest value at the right.
	Area string
}

// charts returns those of a device's values.
func charts(m listing.Measured, values [len(charted)][]float32) (all []chart) {
	total, known := m.Value("memory_total_bytes")
	if !known {
		total = float64(m.Memory)
	}
	for i, c := range [len(charted)]struct {
		name, text string
		// top is the value at the upper edge, or less than the highest value.
		top float64
	}{
		{"load", m.ValueText(charted[0], 100, "%.0f%%"), 1},
		{"memory", m.MemoryText(), total},
		{"temperature", m.ValueText(charted[2], 1, "%.0f °C"), 100},
		{"power", m.ValueText(charted[3], 1, "%.0f W"), 1},
	} {
		if c.text != "" {
			all = append(all, chart{Name: c.name, Text: c.text, Area: area(values[i], c.top)})
		}
	}
	return all
}

// area returns the polygon below values; "" for less than two. Its upper edge is top, or the highest value if that is more.
func area(values []float32, top float64) string {
	if len(values) < 2 {
		return ""
	}
	for _, v := range values {
		top = max(top, float64(v))
	}
	first := chartPoints - len(values)
	corners := fmt.Appendf(nil, "%d,%d", first, chartHeight)
	for i, v := range values {
		height := (chartHeight - 2) * max(float64(v), 0) / top
		if math.IsNaN(height) || math.IsInf(height, 0) {
			height = 0
		}
		corners = fmt.Appendf(corners, " %d,%d", first+i, chartHeight-int(math.Round(height)))
	}
	return string(fmt.Appendf(corners, " %d,%d", chartPoints-1, chartHeight))
}
