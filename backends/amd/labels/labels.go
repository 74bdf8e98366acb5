// Package labels gives a node the labels of AMD's node labeller (cmd/k8s-node-labeller of
// https://github.com/ROCm/k8s-device-plugin), by the same names and with the same values, so
// that selectors that were written for those still match. README.md of the backend lists them,
// and what differs.
//
// It reads nothing. What is known of the GPUs comes from a [gpu.Inventory].
package labels

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/sdk"
)

// The prefixes of labels. The labeller's first names are those with beta.
const (
	prefix = "amd.com/"
	beta   = "beta.amd.com/"
)

// Node is what the labels are made of.
type Node struct {
	// DriverVersion and DriverSource are as in [gpu.Inventory].
	DriverVersion, DriverSource string
	GPUs                        []gpu.GPU
}

// Labels returns the labels of the node, sorted by name; none if it has no GPUs. Each partition
// counts, as one that the labeller takes for a GPU.
func Labels(n Node) []*sdk.NodeLabel {
	if len(n.GPUs) == 0 {
		return nil
	}
	s := set{}
	s.put(prefix+"gpu.mode", "container")
	s.put(prefix+"gpu.driver-version", n.DriverVersion)
	s.put(prefix+"gpu.driver-src-version", n.DriverSource)
	for kind, value := range kinds {
		counts := map[string]int{}
		for _, g := range n.GPUs {
			for _, p := range g.Partitions {
				if text := valid(value(g, p)); text != "" {
					counts[text]++
				}
			}
		}
		s.count(kind, counts)
	}
	s.firmware(n.GPUs)
	s.partitioning(n.GPUs)
	return sdk.NodeLabels(s).Sorted()
}

// kinds are what is counted; an empty value is not known.
var kinds = map[string]func(gpu.GPU, gpu.Partition) string{
	"family":       func(g gpu.GPU, p gpu.Partition) string { return family(g.PCI.ID, p.GFX) },
	"device-id":    func(g gpu.GPU, _ gpu.Partition) string { return fmt.Sprintf("%04x", g.PCI.ID) },
	"product-name": func(g gpu.GPU, _ gpu.Partition) string { return Product(g.Product) },
	"vram": func(g gpu.GPU, p gpu.Partition) string {
		bytes := p.VRAM
		if bytes == 0 && !g.Partitioned() {
			bytes = g.VRAM
		}
		if bytes == 0 {
			return ""
		}
		return fmt.Sprintf("%dG", int(math.Round(float64(bytes>>20)/1024)))
	},
	"simd-count": func(_ gpu.GPU, p gpu.Partition) string { return number(p.SIMDs) },
	"cu-count":   func(_ gpu.GPU, p gpu.Partition) string { return number(p.ComputeUnits) },
}

func number(n uint32) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(n), 10)
}

// Product returns the name of a product as AMD's labeller and its DRA driver write it.
func Product(name string) string {
	return strings.NewReplacer(" ", "_", "(", "", ")", "").Replace(name)
}

type set sdk.NodeLabels

// put adds a label whose value is known.
func (s set) put(name, value string) {
	if value = valid(value); value != "" {
		s[name] = &sdk.NodeLabel{Name: name, Value: value}
	}
}

// count adds the labels of a kind: its value if there is one, else how many GPUs have each.
func (s set) count(kind string, counts map[string]int) {
	for value, n := range counts {
		name := "gpu." + kind
		s.put(beta+name+"."+value, strconv.Itoa(n))
		if len(counts) == 1 {
			s.put(beta+name, value)
			s.put(prefix+name, value)
		} else {
			s.put(prefix+name+"."+value, strconv.Itoa(n))
		}
	}
}

// firmware adds how many GPUs have each version of a firmware.
func (s set) firmware(gpus []gpu.GPU) {
	counts := map[string]int{}
	for _, g := range gpus {
		for name, version := range g.Firmware {
			name = strings.ToUpper(name)
			if name == "SDMA" {
				name = "SDMA0"
			}
			counts[fmt.Sprintf("%s.fw.%d", name, version)] += len(g.Partitions)
		}
	}
	for version, n := range counts {
		s.put(beta+"gpu.firmware."+version, strconv.Itoa(n))
	}
}

// partitioning adds the labels for GPUs with partition modes.
func (s set) partitioning(gpus []gpu.GPU) {
	compute, memory, modes := false, false, map[string]bool{}
	for _, g := range gpus {
		compute, memory = compute || len(g.ComputeModes) > 0, memory || len(g.MemoryModes) > 0
		if g.Compute != "" && g.Memory != "" {
			modes[strings.ToLower(g.Compute+"_"+g.Memory)] = true
		}
	}
	s.put(prefix+"compute-partitioning-supported", strconv.FormatBool(compute))
	s.put(prefix+"memory-partitioning-supported", strconv.FormatBool(memory))
	for mode := range modes {
		if len(modes) == 1 {
			s.put(prefix+"compute-memory-partition", mode)
		}
	}
}

// valid is a text as the value of a label, in which other characters become "_".
func valid(text string) string {
	return sdk.LabelValue(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r) {
			return r
		}
		return '_'
	}, text), sdk.MaxLabelValue)
}
