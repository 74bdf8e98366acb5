//go:build cgo

package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// paths are nvidia-smi's words for the kinds of paths; it has none of its own for
// two GPUs on one board.
var paths = map[backendv1.LinkKind]string{
	backendv1.LinkKind_LINK_KIND_PCIE_SAME_BOARD:   "PIX",
	backendv1.LinkKind_LINK_KIND_PCIE_SWITCH:       "PIX",
	backendv1.LinkKind_LINK_KIND_PCIE_MULTI_SWITCH: "PXB",
	backendv1.LinkKind_LINK_KIND_PCIE_HOST_BRIDGE:  "PHB",
	backendv1.LinkKind_LINK_KIND_SAME_NUMA:         "NODE",
	backendv1.LinkKind_LINK_KIND_CROSS_NUMA:        "SYS",
}

func pathOf(l driver.Link) string {
	switch l.Kind {
	case backendv1.LinkKind_LINK_KIND_NVLINK, backendv1.LinkKind_LINK_KIND_NVSWITCH:
		return fmt.Sprintf("NV%d", l.Count)
	}
	return paths[l.Kind]
}

// links compares the paths between GPUs with nvidia-smi topo -m, and their NVLinks
// with nvidia-smi nvlink -s.
func (c *comparison) links(ctx context.Context, ours driver.Snapshot, smi tool) {
	if text, err := smi.says(ctx, "topo", "-m"); err != nil {
		c.leave("paths between GPUs", err)
	} else if theirs, err := parseTopology(text); err != nil {
		c.leave("paths between GPUs", fmt.Errorf("nvidia-smi topo -m: %w", err))
	} else {
		c.paths(ours, theirs)
	}
	if text, err := smi.says(ctx, "nvlink", "-s"); err != nil {
		c.leave("NVLinks", err)
	} else {
		c.nvlinks(ours, parseNVLinks(text))
	}
}

// pair is two GPUs by their indexes, the lower first.
type pair struct{ a, b int }

func (c *comparison) paths(ours driver.Snapshot, theirs map[pair]string) {
	index := map[string]int{}
	for _, g := range ours.GPUs {
		index[g.UUID] = g.Index
	}
	known := map[pair]string{}
	for _, l := range ours.Links {
		known[pair{index[l.A], index[l.B]}] = pathOf(l)
	}
	for i := range ours.GPUs {
		for j := i + 1; j < len(ours.GPUs); j++ {
			c.equal(fmt.Sprintf("GPU%d-GPU%d", i, j), "topo -m", known[pair{i, j}], theirs[pair{i, j}])
		}
	}
	for p, path := range theirs {
		if p.b >= len(ours.GPUs) {
			c.differ(fmt.Sprintf("GPU%d-GPU%d", p.a, p.b), "topo -m", "nothing", path)
		}
	}
}

// nvlinks compares how many NVLinks of each GPU are used with how many are up. Not
// every one that is up leads to a GPU that is seen here: some of a machine's may be
// another container's, and a bridge may end elsewhere.
func (c *comparison) nvlinks(ours driver.Snapshot, up map[string]int) {
	direct, switched := map[string]int{}, map[string]bool{}
	for _, l := range ours.Links {
		switch l.Kind {
		case backendv1.LinkKind_LINK_KIND_NVLINK:
			direct[l.A] += int(l.Count)
			direct[l.B] += int(l.Count)
		case backendv1.LinkKind_LINK_KIND_NVSWITCH:
			switched[l.A], switched[l.B] = true, true
			c.equal(l.A+" and "+l.B, "NVLinks to switches", fmt.Sprint(l.Count), fmt.Sprint(min(up[l.A], up[l.B])))
		}
	}
	for _, g := range ours.GPUs {
		switch used := direct[g.UUID]; {
		case used > up[g.UUID]:
			c.equal(g.UUID, "NVLinks to other GPUs", fmt.Sprint(used), fmt.Sprintf("%d are up", up[g.UUID]))
		case used > 0 || up[g.UUID] == 0:
			c.compared++
		case !switched[g.UUID]:
			c.leave("NVLinks of "+g.UUID, fmt.Sprintf("%d are up, and lead to no GPU that is seen here", up[g.UUID]))
		}
	}
}

var (
	// escapes underline the head of the matrix.
	escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")
	gpuName = regexp.MustCompile(`^GPU(\d+)$`)
	path    = regexp.MustCompile(`^(NV\d+|PIX|PXB|PHB|NODE|SYS)$`)
)

// parseTopology reads the matrix of nvidia-smi topo -m, which has a column and a row
// for each GPU and NIC, and behind these other columns, with spaces in their names
// and with empty cells. The two halves must be alike.
func parseTopology(text string) (map[pair]string, error) {
	var columns []string
	all := map[pair]string{}
	for line := range strings.Lines(escapes.ReplaceAllString(text, "")) {
		cells := strings.Fields(line)
		switch {
		case len(cells) == 0:
			continue
		case columns == nil && gpuName.MatchString(cells[0]):
			columns = names(cells)
			continue
		case strings.HasPrefix(cells[0], "Legend"):
			// The NICs' names follow.
			return all, nil
		}
		row, err := gpuIndex(cells[0])
		if err != nil {
			continue // a NIC
		}
		if len(cells) <= len(columns) {
			return nil, fmt.Errorf("the row of %s is shorter than the head: %q", cells[0], line)
		}
		for i, column := range columns {
			other, err := gpuIndex(column)
			cell := cells[i+1]
			if err != nil || other == row && cell == "X" {
				continue
			}
			if cell == "SOC" { // as SYS was called up to R375
				cell = "SYS"
			}
			if !path.MatchString(cell) {
				return nil, fmt.Errorf("GPU%d-GPU%d: %q is no path", row, other, cell)
			}
			p := pair{min(row, other), max(row, other)}
			if before, twice := all[p]; twice && before != cell {
				return nil, fmt.Errorf("GPU%d-GPU%d: one half says %s, the other %s", p.a, p.b, before, cell)
			}
			all[p] = cell
		}
	}
	if columns == nil {
		return nil, fmt.Errorf("there is no matrix in it: %.80q", text)
	}
	return all, nil
}

// names are the devices in the matrix's head: what is before "CPU Affinity".
func names(head []string) []string {
	for i, word := range head {
		if word == "CPU" {
			return head[:i]
		}
	}
	return head
}

func gpuIndex(name string) (int, error) {
	match := gpuName.FindStringSubmatch(name)
	if match == nil {
		return 0, fmt.Errorf("%q is no GPU", name)
	}
	return strconv.Atoi(match[1])
}

// parseNVLinks is how many NVLinks of each GPU are up, by UUID, in what nvidia-smi
// nvlink -s says: a line with a speed for each, below the GPU's. MIG devices have
// lines too, and no links.
func parseNVLinks(text string) map[string]int {
	up, gpu := map[string]int{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "GPU ") {
			_, gpu, _ = strings.Cut(line, "(UUID: ")
			gpu, _, _ = strings.Cut(gpu, ")")
		}
		if what, speed, ok := strings.Cut(line, ": "); ok && strings.HasPrefix(what, "Link ") && strings.HasSuffix(speed, "GB/s") {
			up[gpu]++
		}
	}
	return up
}
