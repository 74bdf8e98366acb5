package diagram

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// kind is how a kind of the contract is told to people. Those that nvidia-smi has a name
// for have that name.
type kind struct {
	code string
	// counted kinds have how many lie side by side behind the code.
	counted bool
	words   string
	color   string
	// near kinds are drawn as lines. The others are what any two devices of a
	// machine have; in drawings the boxes of NUMA nodes say that.
	near bool
}

var kinds = map[string]kind{
	"nvlink":            {"NV", true, "NVLink, point to point", "#2e7d32", true},
	"nvswitch":          {"SW", true, "NVLink through a switch", "#00838f", true},
	"xgmi":              {"XG", true, "XGMI (Infinity Fabric)", "#c62828", true},
	"same_device":       {"DEV", false, "parts of one device", "#4527a0", true},
	"pcie_same_board":   {"BRD", false, "one board, with a PCIe switch of its own", "#1565c0", true},
	"pcie_switch":       {"PIX", false, "one PCIe switch in between", "#1976d2", true},
	"pcie_multi_switch": {"PXB", false, "several PCIe switches, no host bridge", "#64b5f6", true},
	"pcie_host_bridge":  {"PHB", false, "up to a PCIe host bridge", "#90a4ae", false},
	"same_numa":         {"NODE", false, "between host bridges of one NUMA node", "#b0bec5", false},
	"cross_numa":        {"SYS", false, "from one NUMA node to another", "#cfd8dc", false},
}

// other is a kind that has no name here.
var other = kind{"OTH", false, "a way of the vendor's own", "#8d6e63", true}

// The cells that are no links.
const (
	selfCode   = "."
	noneCode   = "-"
	oneWayCode = "1WAY"
)

// kindOf is how a link is told.
func kindOf(l Link) kind {
	if k, ok := kinds[l.Kind]; ok {
		return k
	}
	return other
}

// legend is the codes of links, and what they mean.
type legend struct {
	// far says of a code that links of several distances have it; then the distance
	// is in it.
	far     map[string]bool
	entries []entry
}

// entry is a line of the legend.
type entry struct {
	code, words string
	weight      int64
	color       string
	near        bool
}

// newLegend has the entries of links, the best first.
func newLegend(links []Link) *legend {
	distance := map[string]int{}
	l := &legend{far: map[string]bool{}}
	for _, link := range links {
		code := plainCode(link)
		if d, ok := distance[code]; ok && d != link.Distance {
			l.far[code] = true
		}
		distance[code] = link.Distance
	}
	known := map[string]bool{}
	for _, link := range links {
		code := l.code(link)
		if known[code] {
			continue
		}
		known[code] = true
		k := kindOf(link)
		l.entries = append(l.entries, entry{code: code, words: words(link), weight: link.Weight, color: k.color, near: k.near && !link.OneWay})
	}
	slices.SortFunc(l.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.code, b.code))
	})
	return l
}

// plainCode is a link's code without the distance.
func plainCode(l Link) string {
	if l.OneWay {
		return oneWayCode
	}
	k := kindOf(l)
	code := k.code
	if k.counted {
		code += strconv.Itoa(l.Count)
	}
	if l.Path != "" {
		code += "+" + kindOf(Link{Kind: l.Path}).code
	}
	return code
}

func (l *legend) code(link Link) string {
	code := plainCode(link)
	if l.far[code] && !link.OneWay {
		code += ":" + strconv.Itoa(link.Distance)
	}
	return code
}

// words tell a link in a few words.
func words(l Link) string {
	if l.OneWay {
		return "reported by one of the two only, so it does not count"
	}
	text := kindOf(l).words
	if kindOf(l).counted && l.Count > 1 {
		text += fmt.Sprintf(", %d side by side", l.Count)
	}
	if l.Distance > 0 {
		text += fmt.Sprintf(", distance %d", l.Distance)
	}
	if l.Path != "" {
		text += "; over PCIe: " + kindOf(Link{Kind: l.Path}).words
	}
	return text
}

// byWeight is a link that has a weight, to tell it in words.
func byWeight(links []Link) map[int64]Link {
	out := map[int64]Link{}
	for _, l := range links {
		if _, ok := out[l.Weight]; !ok && !l.OneWay {
			out[l.Weight] = l
		}
	}
	return out
}
