package diagram

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"
)

// The sizes in an SVG, in its units.
const (
	svgRadius = 180 // of the circle on which devices lie, at least
	svgDot    = 8   // radius of a device
	svgStep   = 15  // between devices on the circle, at least
	svgLine   = 18  // height of a line of text
	svgName   = 26  // characters of a device's name
	svgText   = 240 // width of a name with its NUMA node
	svgMargin = 16
	// svgUpright is up to how many devices have their names written upright. More have
	// them along the radius.
	svgUpright = 12
	// svgMany lines are so many that they are drawn faint.
	svgMany = 200
)

// SVG prints resources one below the other, each as a circle of devices with their near
// links, and a legend. It is one standalone picture without scripts or fonts of its own.
func SVG(w io.Writer, all []Topology, size Size) {
	circles := make([]*circle, len(all))
	width, height := 1, 1
	for i := range all {
		circles[i] = newCircle(newSheet(&all[i], size))
		width, height = max(width, circles[i].width), height+circles[i].height
	}
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		width, height, width, height)
	fmt.Fprintln(w, `<rect width="100%" height="100%" fill="#ffffff"/>`)
	top := 0
	for _, c := range circles {
		fmt.Fprintf(w, `<g transform="translate(0 %d)">`+"\n", top)
		c.print(w)
		fmt.Fprintln(w, "</g>")
		top += c.height
	}
	fmt.Fprintln(w, "</svg>")
}

// circle is where the rows of a sheet are drawn.
type circle struct {
	*sheet
	width, height int
	centerX       float64
	centerY       float64
	radius        float64
	radial        bool
	spots         []spot // by row
}

// spot is where a row is.
type spot struct{ x, y, angle float64 }

// newCircle puts rows around a circle, by NUMA nodes, with a gap after each.
func newCircle(s *sheet) *circle {
	places := s.places()
	steps := len(s.rows) + len(places)
	c := &circle{sheet: s, spots: make([]spot, len(s.rows)), radial: len(s.rows) > svgUpright}
	c.radius = max(svgRadius, float64(steps*svgStep)/(2*math.Pi))
	above := 3 * svgLine // a name upright
	if c.radial {
		above = svgText
	}
	c.width = 2*int(c.radius) + 2*svgText + 2*svgMargin
	c.height = 3*svgLine + 2*int(c.radius) + 2*above + (len(s.entries)+3)*svgLine
	c.centerX, c.centerY = float64(c.width)/2, float64(3*svgLine+above)+c.radius
	step := 0
	for _, p := range places {
		for _, r := range p.rows {
			angle := 2*math.Pi*float64(step)/float64(steps) - math.Pi/2
			c.spots[r] = spot{c.centerX + c.radius*math.Cos(angle), c.centerY + c.radius*math.Sin(angle), angle}
			step++
		}
		step++
	}
	return c
}

// print draws one resource.
func (c *circle) print(w io.Writer) {
	fmt.Fprintf(w, `<text x="%d" y="%d" font-size="14" font-weight="bold">%s</text>`+"\n", svgMargin, svgLine+4, xmlText(title(c.Topology)))
	fmt.Fprintf(w, `<text x="%d" y="%d" fill="#616161">%s</text>`+"\n", svgMargin, 2*svgLine+4, xmlText(strings.TrimPrefix(c.hidden(), "; ")))
	lines := c.lines()
	opacity := 0.8
	if len(lines) > svgMany {
		opacity = 0.3
	}
	for _, l := range lines {
		a, b := c.spots[l.a], c.spots[l.b]
		fmt.Fprintf(w, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%d" stroke-opacity="%.1f"><title>%s</title></line>`+"\n",
			a.x, a.y, b.x, b.y, l.color, l.width, opacity, xmlText(c.rows[l.a].label+" – "+c.rows[l.b].label+": "+l.code))
	}
	for r, p := range c.spots {
		place := "NUMA " + numa(c.Devices[c.rows[r].devices[0]].NUMANodes)
		fmt.Fprintf(w, `<circle cx="%.1f" cy="%.1f" r="%d" fill="%s" stroke="#37474f"><title>%s</title></circle>`+"\n",
			p.x, p.y, svgDot, c.fill(r), xmlText(c.rows[r].label+": "+c.states(c.rows[r].devices).String()+", "+place))
		c.name(w, p, shorten(c.rows[r].label, svgName)+", "+place)
	}
	c.legend(w)
}

// legend says what the colors mean.
func (c *circle) legend(w io.Writer) {
	y := c.height - (len(c.entries)+2)*svgLine
	x := svgMargin + 14
	for _, e := range []struct{ words, color string }{
		{"free", fillFree}, {"partly in use", fillPartly}, {"in use", fillHeld}, {"unhealthy, or has such", fillUnhealthy},
	} {
		fmt.Fprintf(w, `<circle cx="%d" cy="%d" r="%d" fill="%s" stroke="#37474f"/><text x="%d" y="%d">%s</text>`+"\n",
			x, y-4, svgDot-2, e.color, x+14, y, e.words)
		x += 130
	}
	y += svgLine
	for _, e := range c.entries {
		if e.near {
			fmt.Fprintf(w, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="%d"/>`+"\n", svgMargin, y-4, svgMargin+28, y-4, e.color, width(e))
		}
		fmt.Fprintf(w, `<text x="%d" y="%d">%s</text>`+"\n", svgMargin+40, y, xmlText(e.code+": "+e.words))
		y += svgLine
	}
}

// name writes the name of a row outside of the circle.
func (c *circle) name(w io.Writer, p spot, text string) {
	cos, sin := math.Cos(p.angle), math.Sin(p.angle)
	x, y := p.x+2*svgDot*cos, p.y+2*svgDot*sin
	anchor, turn := "start", p.angle*180/math.Pi
	switch {
	case cos < -0.01:
		anchor, turn = "end", turn-180
	case !c.radial && cos < 0.01:
		anchor = "middle"
	}
	if !c.radial {
		fmt.Fprintf(w, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y+4, anchor, xmlText(text))
		return
	}
	fmt.Fprintf(w, `<text transform="translate(%.1f %.1f) rotate(%.1f)" y="4" text-anchor="%s">%s</text>`+"\n", x, y, turn, anchor, xmlText(text))
}

// xmlText is text with what XML has a meaning for escaped.
func xmlText(text string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		return ""
	}
	return b.String()
}
