package diagram

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// linkKind is how a kind of link of the contract is shown. The codes are those of
// nvidia-smi where it has one.
type linkKind struct {
	code string
	// counted: the number of parallel links follows the code.
	counted bool
	words   string
}

var linkKinds = map[string]linkKind{
	"nvlink":            {"NV", true, "NVLink, point to point"},
	"nvswitch":          {"SW", true, "NVLink through a switch"},
	"xgmi":              {"XG", true, "XGMI (Infinity Fabric)"},
	"same_device":       {"DEV", false, "parts of one device"},
	"pcie_same_board":   {"BRD", false, "one board, with a PCIe switch of its own"},
	"pcie_switch":       {"PIX", false, "one PCIe switch in between"},
	"pcie_multi_switch": {"PXB", false, "several PCIe switches, no host bridge"},
	"pcie_host_bridge":  {"PHB", false, "up to a PCIe host bridge"},
	"same_numa":         {"NODE", false, "between host bridges of one NUMA node"},
	"cross_numa":        {"SYS", false, "from one NUMA node to another"},
}

// other is any unknown kind.
var other = linkKind{"OTH", false, "a vendor-specific link"}

// The codes of cells without a link.
const (
	selfCode   = "."
	noneCode   = "-"
	oneWayCode = "1WAY"
)

// kindOf returns the kind of a link.
func kindOf(l Link) linkKind {
	if k, ok := linkKinds[l.Kind]; ok {
		return k
	}
	return other
}

// legend explains the codes of links.
type legend struct {
	// ambiguous are codes of links with several distances; the distance is added to them.
	ambiguous map[string]bool
	entries   []entry
}

// entry is a line of the legend.
type entry struct {
	code, words string
	weight      int64
}

// newLegend returns the legend of links, the best first.
func newLegend(links []Link) *legend {
	distance := map[string]int{}
	l := &legend{ambiguous: map[string]bool{}}
	for _, link := range links {
		code := plainCode(link)
		if d, ok := distance[code]; ok && d != link.Distance {
			l.ambiguous[code] = true
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
		l.entries = append(l.entries, entry{code: code, words: words(link), weight: link.Weight})
	}
	slices.SortFunc(l.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.code, b.code))
	})
	return l
}

// plainCode returns a link's code without the distance.
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
	if l.ambiguous[code] && !link.OneWay {
		code += ":" + strconv.Itoa(link.Distance)
	}
	return code
}

// words describes a link.
func words(l Link) string {
	if l.OneWay {
		return "reported by only one of the two devices, so it does not count"
	}
	text := kindOf(l).words
	if kindOf(l).counted && l.Count > 1 {
		text += fmt.Sprintf(", %d parallel links", l.Count)
	}
	if l.Distance > 0 {
		text += fmt.Sprintf(", distance %d", l.Distance)
	}
	if l.Path != "" {
		text += "; over PCIe: " + kindOf(Link{Kind: l.Path}).words
	}
	return text
}

// byWeight returns a link for each weight, for its description.
func byWeight(links []Link) map[int64]Link {
	out := map[int64]Link{}
	for _, l := range links {
		if _, ok := out[l.Weight]; !ok && !l.OneWay {
			out[l.Weight] = l
		}
	}
	return out
}
