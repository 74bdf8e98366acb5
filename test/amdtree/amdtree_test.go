package amdtree

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func write(t *testing.T, m Machine) *Tree {
	t.Helper()
	tree, err := Write(TempDir(t), m)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// list is every path of the tree, with what links point to.
func list(t *testing.T, tree *Tree) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(tree.Root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(tree.Root, path)
		if e.Type()&fs.ModeSymlink != 0 {
			if all[name], err = os.Readlink(path); err != nil {
				return err
			}
			if _, err := filepath.EvalSymlinks(path); err != nil {
				t.Errorf("a link that leads nowhere: %v", err)
			}
		} else if name != ".staging" {
			all[name] = e.Type().String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// renders are the render minors that KFD has, by node.
func renders(t *testing.T, tree *Tree) []int {
	t.Helper()
	var all []int
	for i := 0; ; i++ {
		b, err := os.ReadFile(filepath.Join(tree.Root, nodesDir, strconv.Itoa(i), "properties"))
		if err != nil {
			return all
		}
		p, err := parse(string(b))
		if err != nil {
			t.Fatal(err)
		}
		if p["drm_render_minor"] > 0 {
			all = append(all, int(p["drm_render_minor"]))
		}
	}
}

// linkCounts counts links by directory, type and weight.
func linkCounts(t *testing.T, tree *Tree) map[string]int {
	t.Helper()
	counts := map[string]int{}
	files, err := filepath.Glob(filepath.Join(tree.Root, nodesDir, "*", "*_links", "*", "properties"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		p, err := parse(read(t, file))
		if err != nil {
			t.Fatal(err)
		}
		kind := filepath.Base(filepath.Dir(filepath.Dir(file)))
		counts[fmt.Sprintf("%s type %d weight %d", kind, p["type"], p["weight"])]++
	}
	return counts
}

// The machine that is described with eight MI300X in CPX is the one that was
// captured, one partition missing, and in SPX it has sparse minors.
func TestPartitions(t *testing.T) {
	cpx := write(t, NewMI300X("CPX", "NPS4"))
	got := renders(t, cpx)
	if len(got) != 63 || slices.Min(got) != 128 || slices.Max(got) != 190 {
		t.Errorf("CPX has the render minors %v, want 128 to 190", got)
	}
	want := map[string]int{
		"io_links type 1 weight 32": 2, "io_links type 2 weight 20": 126, "p2p_links type 2 weight 52": 126,
		"io_links type 11 weight 13": 434, "io_links type 11 weight 41": 3472,
	}
	if got := linkCounts(t, cpx); !maps.Equal(got, want) {
		t.Errorf("links are %v, want %v", got, want)
	}
	if got, want := renders(t, write(t, NewMI300X("SPX", "NPS1"))), []int{128, 136, 144, 152, 160, 168, 176, 184}; !slices.Equal(got, want) {
		t.Errorf("SPX has the render minors %v, want %v", got, want)
	}
}

// A tree has the files and links that readers go by, and no link leads nowhere.
func TestLayout(t *testing.T) {
	m := NewMixed()
	m.Dotted = true
	tree := write(t, m)
	all := list(t, tree)
	for name, want := range map[string]string{
		"sys/bus/pci/devices/0001:05:00.0":               "../../../devices/pci0001:04/0001:04:01.1/0001:05:00.0",
		"sys/bus/pci/drivers/amdgpu/10000:e1:00.0":       "../../../../devices/pci10000:e0/10000:e0:01.1/10000:e1:00.0",
		"sys/module/amdgpu/drivers/pci:amdgpu":           "../../../bus/pci/drivers/amdgpu",
		"sys/class/drm/renderD129":                       "../../devices/pci0000:04/0000:04:01.1/0000:05:00.0/drm/renderD129",
		"sys/class/drm/card3":                            "../../devices/platform/amdgpu_xcp.0/drm/card3",
		"sys/class/kfd/kfd":                              "../../devices/virtual/kfd/kfd",
		"sys/dev/char/226:130":                           "../../devices/platform/amdgpu_xcp.0/drm/renderD130",
		"sys/devices/platform/amdgpu_xcp.0/drm/card3":    fs.ModeDir.String(),
		"sys/class/drm/card0":                            "../../devices/pci0000:00/0000:01:00.0/drm/card0",
		"sys/bus/pci/devices/0000:05:00.0/vendor":        "",
		"sys/class/kfd/kfd/topology/nodes/0/properties":  "",
		"sys/class/kfd/kfd/topology/nodes/2/name":        "",
		"sys/module/amdgpu/version":                      fs.FileMode(0).String(),
		"sys/class/hwmon/hwmon0":                         "../../devices/pci0000:04/0000:04:01.1/0000:05:00.0/hwmon/hwmon0",
		"sys/devices/pci0000:04/0000:04:01.1/config":     "-",
		"sys/devices/platform/amdgpu_xcp.0/drm/card3/x":  "-",
		"sys/class/drm/renderD130/device/drm/renderD130": "",
	} {
		if want == "" || want == "-" { // is there, through links, or not
			if _, err := os.Stat(filepath.Join(tree.Root, name)); (err == nil) != (want == "") {
				t.Errorf("%s: %v", name, err)
			}
		} else if all[name] != want {
			t.Errorf("%s is %q, want %q", name, all[name], want)
		}
	}
	// 10 of others, then as they come: 8+8+8+1+8 of the cards.
	if cards, renders := tree.Minors(3); !slices.Equal(cards, []int{26}) || !slices.Equal(renders, []int{154}) {
		t.Errorf("the MI210 has the minors %v and %v", cards, renders)
	}
	for name, want := range map[string]string{
		"unique_id": "000000000000" + "19c3\n", "numa_node": "-1\n", "device": "0x740f\n", "revision": "0x02\n", "class": "0x038000\n",
		"ras/umc_err_count": "ue: 0\nce: 0\n", "mem_info_vram_total": "68719476736\n", "hwmon/hwmon3/name": "amdgpu\n",
	} {
		if got := read(t, tree.Device(3), name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if _, err := os.Stat(filepath.Join(tree.Device(3), "current_compute_partition")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an MI210 has partition modes: %v", err)
	}
	if got := read(t, tree.Device(0), "available_compute_partition"); got != "SPX, DPX, QPX, CPX\n" {
		t.Errorf("available modes are %q", got)
	}
}

// An old kernel does not know the properties that came later.
func TestOldKernel(t *testing.T) {
	m := NewVega10()
	m.NoUniqueID = true
	tree := write(t, m)
	p, err := parse(read(t, tree.Node(0, 0), "properties"))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"domain", "gfx_target_version", "hive_id", "unique_id"} {
		if _, ok := p[key]; ok {
			t.Errorf("an old kernel says %s", key)
		}
	}
	if p["location_id"] != 6400 || p["simd_count"] != 256 || p["drm_render_minor"] != 128 {
		t.Errorf("properties are %v", p)
	}
	if _, err := os.Stat(filepath.Join(tree.Device(0), "unique_id")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the card says a unique_id: %v", err)
	}
}

// A switched mode shows the states in between that the kernel does, a generation
// for each time that nodes were taken or made, and other numbers for other nodes.
func TestSwitchPartition(t *testing.T) {
	tree := write(t, NewMI300X("SPX", "NPS1"))
	generation := func() string { return strings.TrimSpace(read(t, tree.Root, topologyDir, "generation_id")) }
	before := generation()
	var states []string
	tree.Halfway = func(state string) {
		states = append(states, fmt.Sprintf("%s: %d nodes, generation %s, %s", state, len(renders(t, tree)), generation(),
			strings.TrimSpace(read(t, tree.Root, "sys/bus/pci/devices/0000:05:00.0/current_compute_partition"))))
	}
	if err := tree.SwitchPartition(0, "QPX", ""); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"no nodes: 0 nodes, generation 3, SPX", "half of the nodes: 3 nodes, generation 3, SPX",
		"no nodes of the card: 7 nodes, generation 3, SPX", "new modes: 7 nodes, generation 3, QPX",
		"no nodes: 0 nodes, generation 3, QPX", "half of the nodes: 5 nodes, generation 3, QPX",
	}
	if before != "2" || generation() != "4" || !slices.Equal(states, want) {
		t.Errorf("generation %s, then %s; states\n%s\nwant\n%s", before, generation(), strings.Join(states, "\n"), strings.Join(want, "\n"))
	}
	if got, want := renders(t, tree), []int{136, 144, 152, 160, 168, 176, 184, 128, 129, 130, 131}; !slices.Equal(got, want) {
		t.Errorf("render minors are %v, want %v", got, want)
	}
	for _, wrong := range []string{"TPX", "cpx", "XYZ"} {
		if err := tree.SwitchPartition(0, wrong, ""); err == nil {
			t.Errorf("%s was taken", wrong)
		}
	}
}

// Verifies that a sudden change of the nodes ends as any other does, and shows all the nodes
// of the other cards at each state in between.
func TestSwitchPartitionSuddenly(t *testing.T) {
	tree, other := write(t, NewMI300X("SPX", "NPS1")), write(t, NewMI300X("SPX", "NPS1"))
	tree.Sudden = true
	states := 0
	tree.Halfway = func(state string) {
		states++
		if nodes := len(renders(t, tree)); nodes != 7 {
			t.Errorf("%s: %d nodes, want those of the other seven cards", state, nodes)
		}
	}
	for _, changed := range []*Tree{tree, other} {
		if err := changed.SwitchPartition(0, "QPX", ""); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := list(t, tree), list(t, other); states != 2 || !maps.Equal(got, want) {
		t.Errorf("%d states in between; the files are\n%v\nwant\n%v", states, got, want)
	}
}

// What is unplugged leaves nothing; plugged in again it is what it was.
func TestUnplug(t *testing.T) {
	tree := write(t, NewMixed())
	before := list(t, tree)
	for gpu := range tree.Machine().GPUs {
		device := tree.Device(gpu)
		if err := tree.Unplug(gpu); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(device); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("GPU %d is still there: %v", gpu, err)
		}
		if len(renders(t, tree)) >= 8+1+2+1+4 {
			t.Errorf("KFD still has GPU %d", gpu)
		}
		if err := tree.Unplug(gpu); err == nil {
			t.Errorf("GPU %d was unplugged twice", gpu)
		}
		if err := tree.Plug(gpu); err != nil {
			t.Fatal(err)
		}
		if err := tree.Plug(gpu); err == nil {
			t.Errorf("GPU %d was plugged in twice", gpu)
		}
	}
	after := list(t, tree)
	for name, kind := range before {
		if after[name] != kind && !strings.Contains(name, "/nodes/") {
			t.Errorf("%s was %q and is %q", name, kind, after[name])
		}
	}
}

// The driver, loaded again in another order, gives other minors to the same cards.
func TestReloadDriver(t *testing.T) {
	tree := write(t, NewMixed())
	_, before := tree.Minors(0)
	if err := tree.ReloadDriver(4, 3, 2, 0); err != nil {
		t.Fatal(err)
	}
	cards, after := tree.Minors(0)
	if slices.Equal(before, after) || after[0] != 129+1+8+1+8 || cards[0] != 2+8+1+8 {
		t.Errorf("render minors were %v, and are %v; cards %v", before, after, cards)
	}
	if _, minors := tree.Minors(1); minors != nil || tree.Node(1, 0) != "" {
		t.Errorf("the card without a driver has minors %v and a node %q", minors, tree.Node(1, 0))
	}
	if entries, _ := os.ReadDir(filepath.Join(tree.Root, "sys/bus/pci/drivers/amdgpu")); len(entries) != 4 {
		t.Errorf("%d cards have the driver, want 4", len(entries))
	}
	list(t, tree) // has no link that leads nowhere
	if err := tree.ReloadDriver(0, 0); err == nil {
		t.Error("a card was found twice")
	}
}

func TestRaiseCounter(t *testing.T) {
	tree := write(t, NewMI210())
	for _, raise := range []struct {
		counter string
		by      uint64
	}{{"umc.ue", 2}, {"umc.ce", 300}, {"umc.ue", 1}, {"pcie_replay_count", 7}, {"xgmi_error", 1}} {
		if err := tree.RaiseCounter(5, raise.counter, raise.by); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"ras/umc_err_count": "ue: 3\nce: 300\n", "pcie_replay_count": "7\n", "xgmi_error": "1\n"} {
		if got := read(t, tree.Device(5), name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, wrong := range []string{"umc.xx", "no_such_file", "vpu.ue", "unique_id"} {
		if err := tree.RaiseCounter(5, wrong, 1); err == nil {
			t.Errorf("%s was raised", wrong)
		}
	}
}

func TestDamage(t *testing.T) {
	for name, want := range map[string]string{
		"truncated": "ue: 0\nce: ", "empty": "", "huge number": "ue: 18446744073709551616\nce: 18446744073709551616\n",
	} {
		tree := write(t, NewVega10())
		file := "sys/bus/pci/devices/0000:19:00.0/ras/umc_err_count"
		if err := tree.Spoil(file, Damages[name]); err != nil {
			t.Fatal(err)
		}
		if got := read(t, tree.Root, file); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if err := tree.SetFile(file, "ue: 1\n"); err != nil || read(t, tree.Root, file) != "ue: 1\n" {
			t.Errorf("after SetFile: %q, %v", read(t, tree.Root, file), err)
		}
	}
	for name, damage := range Damages {
		tree := write(t, NewVega10())
		path := filepath.Join(tree.Node(0, 0), "properties")
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := damage(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s, err := os.Stat(path); err == nil && s.Mode().IsRegular() && read(t, path) == string(before) {
			t.Errorf("%s left the file as it was", name)
		}
	}
}

func TestImpossibleMachines(t *testing.T) {
	for name, change := range map[string]func(*Machine){
		"mode":   func(m *Machine) { m.GPUs[0].Compute = "TPX" },
		"bus 0":  func(m *Machine) { m.GPUs[0].Address.Bus = 0 },
		"socket": func(m *Machine) { m.GPUs[0].Socket = 2 },
	} {
		m := NewMI300X("SPX", "NPS1")
		change(&m)
		if _, err := Write(TempDir(t), m); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
