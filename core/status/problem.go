package status

import (
	"fmt"
	"strings"
)

// Problem is something that an operator should act on, and where it belongs.
type Problem struct {
	Backend  string `json:"backend,omitempty"`
	Resource string `json:"resource,omitempty"`
	Device   string `json:"device,omitempty"`
	// Devices are the first of several devices with the same problem, and Count is how many
	// devices have it; Device is "" then.
	Devices []string `json:"devices,omitempty"`
	Count   int      `json:"count,omitempty"`
	Message string   `json:"message"`
}

// maxDevices bounds the devices that a problem lists.
const maxDevices = 8

// String is the problem as one line.
func (p Problem) String() string {
	var where []string
	for _, part := range []struct{ name, value string }{{"backend", p.Backend}, {"resource", p.Resource}, {"device", p.Device}} {
		if part.value != "" {
			where = append(where, part.name+" "+part.value)
		}
	}
	if p.Count > 0 {
		names := strings.Join(p.Devices, ", ")
		if more := p.Count - len(p.Devices); more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		where = append(where, fmt.Sprintf("%d devices (%s)", p.Count, names))
	}
	if len(where) == 0 {
		return p.Message
	}
	return strings.Join(where, ", ") + ": " + p.Message
}

// fold makes one problem of those that differ only in the device: one cause is one line,
// for any number of devices. Messages have the same cause if they differ only in the
// device's ID and in numbers, such as those of its device node or its PCI address; the
// first message is kept then.
func fold(problems []Problem) []Problem {
	type cause struct {
		backend, resource, text string
		nth                     int // of the problems of one device with this text
	}
	type own struct {
		cause
		device string
	}
	type group struct {
		place  int
		differ bool
	}
	groups := map[cause]*group{}
	seen := map[own]int{}
	folded := make([]Problem, 0, len(problems))
	for _, p := range problems {
		if p.Device == "" {
			folded = append(folded, p)
			continue
		}
		c := cause{backend: p.Backend, resource: p.Resource, text: pattern(p)}
		of := own{c, p.Device}
		c.nth = seen[of]
		seen[of]++
		g := groups[c]
		if g == nil {
			groups[c] = &group{place: len(folded)}
			p.Devices, p.Count = []string{p.Device}, 1
			folded = append(folded, p)
			continue
		}
		all := &folded[g.place]
		g.differ = g.differ || all.Message != p.Message
		if all.Count++; all.Count <= maxDevices {
			all.Devices = append(all.Devices, p.Device)
		}
	}
	for _, g := range groups {
		p := &folded[g.place]
		if p.Count == 1 {
			p.Devices, p.Count = nil, 0
			continue
		}
		if g.differ {
			p.Message += fmt.Sprintf(" (%s; similar for the others)", p.Device)
		}
		p.Device = ""
	}
	return folded
}

// hexadecimal are the digits of a number.
const hexadecimal = "0123456789abcdefABCDEF"

// pattern returns the problem's message without the device's ID and without decimal and
// hexadecimal numbers.
func pattern(p Problem) string {
	var out strings.Builder
	for text := p.Message; len(text) > 0; {
		if rest, ok := strings.CutPrefix(text, p.Device); ok && !isWord(rest, 0) && !isWord(p.Message, len(p.Message)-len(text)-1) {
			out.WriteByte('*')
			text = rest
			continue
		}
		digits := text[:len(text)-len(strings.TrimLeft(text, hexadecimal))]
		if strings.ContainsAny(digits, "0123456789") {
			out.WriteByte('#')
			text = text[len(digits):]
			continue
		}
		out.WriteByte(text[0])
		text = text[1:]
	}
	return out.String()
}

// isWord reports whether the text has a letter or digit at an index.
func isWord(text string, at int) bool {
	if at < 0 || at >= len(text) {
		return false
	}
	c := text[at] | 0x20
	return c >= 'a' && c <= 'z' || text[at] >= '0' && text[at] <= '9'
}

// Summary is the first line of Readiness.
func (r Report) Summary() (text string, ready bool) {
	text, ready = r.Readiness()
	text, _, _ = strings.Cut(text, "\n")
	return strings.TrimSuffix(text, ":"), ready
}

// Readiness reports whether the agent serves what the profile promises: every backend has
// reported, and kubelet has every resource; or, on standby, whether it could take over. The
// text has what is missing, or else the problems, a line each.
func (r Report) Readiness() (text string, ready bool) {
	switch {
	case len(r.NotReady) > 0:
		return "not ready: " + strings.Join(r.NotReady, "; "), false
	case r.Role == RoleStandby:
		text = "ready to take over"
	case r.Config.Profile == "":
		text = "ready, with nothing to do: " + r.Config.Reason
	default:
		text = "ready"
	}
	if len(r.Problems) == 0 {
		return text, true
	}
	count := "1 problem"
	if n := len(r.Problems); n > 1 {
		count = fmt.Sprintf("%d problems", n)
	}
	text += ", with " + count + ":"
	for _, p := range r.Problems {
		text += "\n  " + p.String()
	}
	return text, true
}
