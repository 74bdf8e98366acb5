package diagram

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Matrix prints the links of a resource as a table of devices by devices, with a legend.
func Matrix(w io.Writer, t *Topology, size Size) {
	s := newSheet(t, size)
	fmt.Fprintln(w, title(t))
	if len(t.Devices) == 0 {
		return
	}
	fmt.Fprintln(w)
	header := []string{"#"}
	for j := range s.rows {
		header = append(header, strconv.Itoa(j))
	}
	lines := [][]string{append(header, "NUMA", "STATE", "DEVICE")}
	for i, r := range s.rows {
		line := []string{strconv.Itoa(i)}
		for j := range s.rows {
			line = append(line, s.cell(i, j))
		}
		lines = append(lines, append(line, numa(s.Devices[r.devices[0]].NUMANodes), s.states(r.devices).String(), r.label))
	}
	align(w, lines)
	s.notes(w)
}

// title returns the line above a drawing.
func title(t *Topology) string {
	c := counts{}
	for _, d := range t.Devices {
		for _, u := range d.Units {
			c.add(u.State)
		}
	}
	text := fmt.Sprintf("%s: %s", t.Resource, count(len(t.Devices), "device"))
	if c.all() != len(t.Devices) {
		text += ", " + count(c.all(), "unit")
	}
	switch {
	case len(c) == 1 && c.all() > 1:
		for state := range c {
			text += ", all " + stateWord(state)
		}
	case c.all() > 0:
		text += ", " + c.String()
	}
	if t.Policy == "" {
		return text + "; the scheduler chooses"
	}
	return text + "; policy " + t.Policy
}

// notes prints the legend, and what the matrix does not show.
func (s *sheet) notes(w io.Writer) {
	fmt.Fprintln(w)
	lines := [][]string{{selfCode, "the device itself"}}
	for _, e := range s.entries {
		text := e.words
		if e.weight > 0 {
			text += fmt.Sprintf(" (weight %d)", e.weight)
		}
		lines = append(lines, []string{e.code, text})
	}
	if n := len(s.Devices); len(s.Links) < n*(n-1)/2 {
		lines = append(lines, []string{noneCode, "no known link (weight 0)"})
	}
	for i := range lines {
		lines[i][0] = "  " + lines[i][0]
	}
	align(w, lines)
	folded := 0
	for _, r := range s.rows {
		folded = max(folded, len(r.devices))
	}
	if folded > 1 {
		fmt.Fprintln(w, "\nDevices with the same links share a row; --wide shows each.")
	}
	if s.left > 0 {
		fmt.Fprintf(w, "\n%s left out; --wide and -o json show all.\n", isAre(s.left, "device"))
	}
}

// align prints lines in columns.
func align(w io.Writer, lines [][]string) {
	var widths []int
	for _, line := range lines {
		for i, cell := range line {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range lines {
		var b strings.Builder
		for i, cell := range line {
			b.WriteString(cell)
			if i < len(line)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

func numa(nodes []int) string {
	if len(nodes) == 0 {
		return noneCode
	}
	texts := make([]string, len(nodes))
	for i, n := range nodes {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ",")
}

// count returns "1 device" or "2 devices".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func isAre(n int, noun string) string {
	if n == 1 {
		return count(n, noun) + " is"
	}
	return count(n, noun) + " are"
}

func stateWord(state State) string {
	for _, s := range stateWords {
		if s.state == state {
			return s.words
		}
	}
	return string(state)
}
