package topology

import (
	"cmp"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/accelmux/accelmux/core/inventory"
)

// drawLinks links devices at random, or as a hierarchy.
func drawLinks(t *rapid.T, devices []*inventory.Device) {
	palette := rapid.SliceOfN(rapid.SampledFrom([]inventory.Link{
		{Kind: "nvlink", Count: 1}, {Kind: "nvlink", Count: 2}, {Kind: "xgmi", Count: 1, Distance: 15}, {Kind: "pcie_switch"},
		{Kind: "same_numa"}, {Kind: "cross_numa"}, {Kind: "other", Distance: 50}, {Kind: "same_device", Distance: 13}, {},
	}), 1, 3).Draw(t, "palette")
	shape := rapid.SampledFrom([]string{"hierarchy", "random", "broken"}).Draw(t, "links")
	pick := rapid.IntRange(0, len(palette)-1)
	path := make([][3]int, len(devices))
	for i := range path {
		for level := range path[i] {
			path[i][level] = rapid.IntRange(0, 1).Draw(t, "path")
		}
	}
	slices.SortFunc(palette, func(a, b inventory.Link) int { return cmp.Compare(Value(a), Value(b)) })
	for i, a := range devices {
		for j, b := range devices {
			if i == j {
				continue
			}
			var l inventory.Link
			if shape == "random" {
				if i > j {
					continue
				}
				l = palette[pick.Draw(t, "kind")]
			} else {
				depth := 0
				for depth < 3 && path[i][depth] == path[j][depth] {
					depth++
				}
				l = palette[min(depth, len(palette)-1)]
				if shape == "broken" && rapid.IntRange(0, 9).Draw(t, "gone") == 0 {
					continue
				}
			}
			if l.Kind == "" {
				continue
			}
			l.Peer = b.ID
			a.Links = append(a.Links, l)
			if shape == "random" {
				if rapid.IntRange(0, 9).Draw(t, "other way") == 0 {
					l = palette[pick.Draw(t, "back")]
				}
				l.Peer = a.ID
				b.Links = append(b.Links, l)
			}
		}
	}
}

// drawUnits makes a machine with at most n units.
func drawUnits(t *rapid.T, n int) []Unit {
	kind := rapid.SampledFrom([]string{"devices", "partitions", "replicas"}).Draw(t, "kind")
	count := rapid.IntRange(1, n).Draw(t, "devices")
	replicas := 1
	if kind == "replicas" {
		count = rapid.IntRange(1, max(1, n/2)).Draw(t, "replicated")
		replicas = rapid.IntRange(1, n/count).Draw(t, "replicas")
	}
	numa := rapid.SampledFrom([]string{"none", "halves", "pairs", "random", "sets"}).Draw(t, "NUMA")
	var devices []*inventory.Device
	for i := range count {
		d := &inventory.Device{Key: inventory.Key{Backend: "b", ID: fmt.Sprintf("d%02d", i)}}
		switch numa {
		case "halves":
			d.NUMANodes = []int{i * 2 / count}
		case "pairs":
			d.NUMANodes = [][]int{{0, 1}, {2}}[i*2/count]
		case "random":
			if node := rapid.IntRange(-1, 2).Draw(t, "node"); node >= 0 {
				d.NUMANodes = []int{node, node}[:1+i%2] // the same node twice is that node
			}
		case "sets":
			d.NUMANodes = rapid.SampledFrom([][]int{{0}, {1}, {0, 1}, {1, 2}, nil}).Draw(t, "nodes")
		}
		if kind == "partitions" {
			if parent := rapid.IntRange(-1, 4).Draw(t, "parent"); parent >= 0 {
				d.Parent = fmt.Sprintf("p%d", parent)
			}
			if i > 0 && d.Parent == "p4" { // one that is listed, too
				d.Parent = devices[rapid.IntRange(0, i-1).Draw(t, "listed parent")].ID
			}
			if rapid.IntRange(0, 7).Draw(t, "backend") == 0 {
				d.Backend = "c" // whose parent p0 is another one
			}
		}
		devices = append(devices, d)
	}
	drawLinks(t, devices)
	if rapid.Bool().Draw(t, "paths beside links") {
		drawLinks(t, devices)
	}
	var units []Unit
	for _, d := range devices {
		for r := range replicas {
			id := d.ID
			if replicas > 1 {
				id = fmt.Sprintf("%s::%d", d.ID, r)
			}
			units = append(units, Unit{ID: id, Device: d, Healthy: true})
		}
	}
	return units
}

func drawOptions(t *rapid.T) Options {
	return Options{
		Policy:       rapid.SampledFrom([]Policy{BestLinks, Spread, Pack}).Draw(t, "policy"),
		WeakestFirst: rapid.Bool().Draw(t, "weakest first"),
	}
}

// drawRequest asks for some of what is available.
func drawRequest(t *rapid.T, units []Unit) Request {
	var r Request
	for _, u := range units {
		switch rapid.SampledFrom([]string{"free", "free", "free", "free", "used", "must"}).Draw(t, "state") {
		case "free":
			r.Available = append(r.Available, u.ID)
		case "must":
			r.Available = append(r.Available, u.ID)
			if len(r.Must) < 2 {
				r.Must = append(r.Must, u.ID)
			}
		}
	}
	r.Size = rapid.IntRange(len(r.Must), max(len(r.Must), len(r.Available))).Draw(t, "size")
	return r
}
