package amdtree

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/sysroot"
)

const (
	topologyDir = "sys/devices/virtual/kfd/kfd/topology/"
	nodesDir    = topologyDir + "nodes"
)

// node is one of the KFD topology: a socket, or a partition of a card.
type node struct {
	gpu    *loaded // nil for a socket
	socket int
	index  int
}

// nodes are the nodes in the order in which KFD has them; a node's number is its
// place. Partitions without a DRM device are left out, as the driver does.
func (t *Tree) nodes() []node {
	var all []node
	for i := range t.machine.Sockets {
		all = append(all, node{socket: i})
	}
	for _, l := range t.loaded {
		n, err := l.Model.partitions(l.Compute)
		if err != nil || l.Model.NoKFD {
			continue // an error was found when the mode was set
		}
		for i := range min(n, len(l.drm)) {
			all = append(all, node{gpu: l, socket: l.Socket, index: i})
		}
	}
	return all
}

// property is a line of a properties file.
type property struct {
	key   string
	value uint64
}

func (w *writer) properties(name string, lines []property) {
	var text strings.Builder
	for _, p := range lines {
		text.WriteString(p.key + " " + strconv.FormatUint(p.value, 10) + "\n")
	}
	w.File(name, text.String())
}

// render writes all nodes below a directory.
func (t *Tree) render(w *writer, dir string) {
	all := t.nodes()
	for from, a := range all {
		at := path.Join(dir, strconv.Itoa(from))
		counts := map[string]int{}
		w.Dir(at+"/io_links", at+"/p2p_links", at+"/caches")
		for to, b := range all {
			if l, kind := t.link(a, b); kind != "" && from != to {
				l = append([]property{{"type", l[0].value}, {"version_major", 0}, {"version_minor", 0},
					{"node_from", uint64(from)}, {"node_to", uint64(to)}}, l[1:]...)
				w.properties(fmt.Sprintf("%s/%s/%d/properties", at, kind, counts[kind]), l)
				counts[kind]++
			}
		}
		w.File(at+"/name", a.name()+"\n")
		w.properties(at+"/properties", t.properties(a, counts["io_links"], counts["p2p_links"]))
		w.properties(at+"/mem_banks/0/properties", a.bank())
		gpuID := 0
		if a.gpu != nil {
			gpuID = 1 + int(a.gpu.UniqueID>>7%60000) + a.index
			w.File(at+"/mem_banks/0/used_memory", "14102528\n")
		}
		w.File(at+"/gpu_id", fmt.Sprintln(gpuID))
	}
}

func (n node) name() string {
	if n.gpu == nil {
		return ""
	}
	return "ip discovery"
}

func (n node) bank() []property {
	heap, size, width, clock := uint64(0), uint64(512<<30), uint64(64), uint64(4800)
	if n.gpu != nil {
		heap, size, width, clock = 1, n.gpu.Model.VRAM/n.share(), 8192/n.share(), 1300
	}
	return []property{{"heap_type", heap}, {"size_in_bytes", size}, {"flags", 0}, {"width", width}, {"mem_clk_max", clock}}
}

// share is how many partitions the node's card has.
func (n node) share() uint64 {
	parts, err := n.gpu.Model.partitions(n.gpu.Compute)
	if err != nil {
		return 1
	}
	return uint64(parts)
}

// link is what there is from one node to another, type first, and the directory for
// it: io_links, p2p_links, or none.
func (t *Tree) link(a, b node) (properties []property, kind string) {
	far := a.socket != b.socket
	switch {
	case a.gpu == nil && b.gpu == nil:
		return t.linkOf(1, 32, 0, 0, 0), "io_links"
	case a.gpu == nil || b.gpu == nil:
		l := b.gpu
		if l == nil {
			l = a.gpu
		}
		if far && t.machine.OldKernel {
			return nil, ""
		}
		if far {
			return t.linkOf(2, 52, 0, 0, 0), "p2p_links"
		}
		return t.linkOf(2, 20, 0, l.Model.PCIBandwidth, 3), "io_links"
	case a.gpu == b.gpu:
		return t.linkOf(11, 13, 819200, 819200, 3), "io_links"
	case a.gpu.Hive != 0 && a.gpu.Hive == b.gpu.Hive:
		speed := a.gpu.Model.XGMIBandwidth
		return t.linkOf(11, a.gpu.Model.XGMIWeight, speed, speed, 3), "io_links"
	case t.machine.OldKernel:
		return nil, ""
	case far:
		return t.linkOf(2, 72, 0, 0, 0), "p2p_links"
	}
	return t.linkOf(2, 40, 0, 0, 0), "p2p_links"
}

func (t *Tree) linkOf(kind, weight, low, high, engines int) []property {
	l := []property{
		{"type", uint64(kind)}, {"weight", uint64(weight)}, {"min_latency", 0}, {"max_latency", 0},
		{"min_bandwidth", uint64(low)}, {"max_bandwidth", uint64(high)}, {"recommended_transfer_size", 0},
	}
	if !t.machine.OldKernel {
		l = append(l, property{"recommended_sdma_engine_id_mask", uint64(engines)})
	}
	return append(l, property{"flags", 1})
}

// young are the properties that old kernels do not have.
var young = map[string]bool{
	"gfx_target_version": true, "domain": true, "hive_id": true, "num_xcc": true, "num_gws": true, "debug_prop": true,
	"p2p_links_count": true, "num_sdma_engines": true, "num_sdma_xgmi_engines": true, "num_sdma_queues_per_engine": true,
	"num_cp_queues": true,
}

// properties are those of a node, in the kernel's order
// (node_show in drivers/gpu/drm/amd/amdkfd/kfd_topology.c).
func (t *Tree) properties(n node, links, peers int) []property {
	v := map[string]uint64{"mem_banks_count": 1, "io_links_count": uint64(links), "p2p_links_count": uint64(peers), "max_engine_clk_ccompute": 2750}
	keys := []string{
		"cpu_cores_count", "simd_count", "mem_banks_count", "caches_count", "io_links_count", "p2p_links_count",
		"cpu_core_id_base", "simd_id_base", "max_waves_per_simd", "lds_size_in_kb", "gds_size_in_kb", "num_gws",
		"wave_front_size", "array_count", "simd_arrays_per_engine", "cu_per_simd_array", "simd_per_cu",
		"max_slots_scratch_cu", "gfx_target_version", "vendor_id", "device_id", "location_id", "domain",
		"drm_render_minor", "hive_id", "num_sdma_engines", "num_sdma_xgmi_engines", "num_sdma_queues_per_engine", "num_cp_queues",
	}
	if l := n.gpu; l != nil {
		keys = append(keys, "max_engine_clk_fcompute", "local_mem_size", "fw_version", "capability", "debug_prop",
			"sdma_fw_version", "unique_id", "num_xcc")
		for key, value := range map[string]uint64{
			"simd_count": uint64(l.Model.SIMDs) / n.share(), "simd_per_cu": uint64(l.Model.SIMDsPerCU), "simd_id_base": 1<<31 + 4096,
			"max_waves_per_simd": 8, "lds_size_in_kb": 64, "num_gws": 64, "wave_front_size": 64, "array_count": 4,
			"simd_arrays_per_engine": 1, "cu_per_simd_array": 10, "max_slots_scratch_cu": 32, "caches_count": 80,
			"gfx_target_version": l.Model.GFX, "vendor_id": 0x1002, "device_id": uint64(l.Model.Device),
			"location_id": t.location(n), "domain": uint64(l.Address.Domain), "drm_render_minor": uint64(l.drm[n.index].render),
			"hive_id": l.Hive, "num_sdma_engines": 2, "num_sdma_queues_per_engine": 8, "num_cp_queues": 24,
			"max_engine_clk_fcompute": 2100, "fw_version": 177, "capability": 2893521536, "debug_prop": 1511,
			"sdma_fw_version": 24, "unique_id": l.UniqueID, "num_xcc": uint64(l.Model.XCCs) / n.share(),
		} {
			v[key] = value
		}
		if t.machine.XCDIdentity && l.Compute != "" {
			v["unique_id"] = l.UniqueID ^ uint64(0xabcd+n.index)<<20
		}
	} else {
		v["cpu_cores_count"] = 64
	}
	var lines []property
	for _, key := range append(keys, "max_engine_clk_ccompute") {
		if (young[key] && t.machine.OldKernel) || (key == "unique_id" && t.machine.NoUniqueID) {
			continue
		}
		lines = append(lines, property{key, v[key]})
	}
	return lines
}

func (t *Tree) location(n node) uint64 {
	at := n.gpu.Address
	id := uint64(at.Bus)<<8 | uint64(at.Device)<<3 | uint64(at.Function)
	if t.machine.HighIndex {
		return id | uint64(n.index)<<28
	}
	return id | uint64(n.index)
}

// publish shows the nodes as they are now. The kernel takes all nodes away and makes
// them again; gone says that some are there no longer, for then it counts the
// generation before it makes them, otherwise after.
func (t *Tree) publish(gone bool) error {
	stage := path.Join(".staging", fmt.Sprintf("nodes%d", t.stage()))
	w := newWriter(t.Root)
	w.Dir(stage)
	t.render(&w, stage)
	if w.Err != nil {
		return w.Err
	}
	return t.swap(stage, len(t.nodes()), gone)
}

// swap puts rendered nodes in place of those that are there.
func (t *Tree) swap(stage string, count int, gone bool) error {
	if t.Sudden {
		staged := filepath.Join(t.Root, stage)
		if err := unix.Renameat2(unix.AT_FDCWD, staged, unix.AT_FDCWD, filepath.Join(t.Root, nodesDir), unix.RENAME_EXCHANGE); err != nil {
			return fmt.Errorf("exchange the nodes: %w", err)
		}
		return errors.Join(t.count(), os.RemoveAll(staged))
	}
	nodes, old := filepath.Join(t.Root, nodesDir), filepath.Join(t.staging, fmt.Sprintf("old%d", t.stage()))
	if err := os.Mkdir(old, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(nodes)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Rename(filepath.Join(nodes, e.Name()), filepath.Join(old, e.Name())); err != nil {
			return err
		}
	}
	if gone {
		err = t.count()
	}
	t.Halfway("no nodes")
	for i := range count {
		name := strconv.Itoa(i)
		err = errors.Join(err, os.Rename(filepath.Join(t.Root, stage, name), filepath.Join(nodes, name)))
		if i == count/2 {
			t.Halfway("half of the nodes")
		}
	}
	if !gone {
		err = errors.Join(err, t.count())
	}
	return errors.Join(err, os.RemoveAll(old), os.RemoveAll(filepath.Join(t.Root, stage)))
}

// count counts the topology's generation.
func (t *Tree) count() error {
	t.generation++
	return t.replace(topologyDir+"generation_id", fmt.Sprintln(t.generation))
}

func (t *Tree) stage() int {
	t.staged++
	return t.staged
}

// replace writes a file so that a reader sees what was there before, or all of it.
func (t *Tree) replace(name, text string) error { return sysroot.Replace(t.Root, name, text) }
