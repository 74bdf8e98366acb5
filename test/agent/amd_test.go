package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"

	"github.com/accelmux/accelmux/test/amdtree"
)

// Verifies that eight MI300X in CPX, of which one partition has no node, become 63
// partitions under both strategies, which are changed while everything runs; and that
// a container gets its partitions' own nodes, and KFD's once.
func TestAMDPartitions(t *testing.T) {
	n := startAMD(t, amdtree.NewMI300X("CPX", "NPS4"), mixed, "", amdCPX, 63)
	pid := n.backend("amd").PID
	if advertised := n.kubelet.Capacity(amdGPU); advertised != 0 {
		t.Errorf("%s has %d units beside the partitions", amdGPU, advertised)
	}
	definitions := n.definitions()
	nodes := map[string]string{}
	for _, id := range n.allocate("pod", amdCPX, 63) {
		got := definitions[id]
		if strings.Count(got, `"/dev/kfd"`) != 1 || strings.Count(got, `"/dev/dri/renderD`) != 1 || strings.Count(got, `"/dev/dri/card`) != 1 {
			t.Errorf("%s: a container gets %s; want /dev/kfd, a render node and a card node, each once", id, got)
		}
		for _, node := range strings.Split(got, `"`) {
			if strings.HasPrefix(node, "/dev/dri/") && nodes[node] != "" {
				t.Errorf("%s and %s have %s", id, nodes[node], node)
			} else if strings.HasPrefix(node, "/dev/dri/") {
				nodes[node] = id
			}
		}
	}
	n.kubelet.Free("pod")
	n.configureAMD(single, "")
	n.wantCounts(amdGPU, 63, 63)
	n.wantCounts(amdCPX, 0, 0)
	n.configureAMD(mixed, "")
	n.wantCounts(amdCPX, 63, 63)
	n.wantCounts(amdGPU, 0, 0)
	n.wantWritten()
	if now := n.backend("amd").PID; now != pid {
		t.Errorf("the backend is process %d, was %d", now, pid)
	}
}

// Verifies the GPUs of an old kernel, and of a machine with several models, modes and
// PCI domains, where each partition style has a resource of its own.
func TestAMDMachines(t *testing.T) {
	t.Run("Vega10", func(t *testing.T) {
		n := startAMD(t, amdtree.NewVega10(), mixed, "", amdGPU, 1)
		d := n.device(n.id(0))
		if d.Attributes["gfxVersion"] != "gfx900" || d.Attributes["partitioned"] != false {
			t.Errorf("attributes %v", d.Attributes)
		}
		n.wantWritten()
	})
	t.Run("mixed", func(t *testing.T) {
		n := startAMD(t, amdtree.NewMixed(), mixed, "", amdCPX, 8)
		for resource, units := range map[string]int{amdGPU: 1, amdSPX: 1, "amd.com/dpx_nps1": 2, "amd.com/qpx_nps1": 4} {
			n.wantCounts(resource, units, units)
		}
		n.wantWritten()
	})
}

// "A GPU that has an error is advertised again after a restart of kubelet."
// Verifies that an uncorrectable error takes a GPU with all its partitions and no
// other, also over a restart of kubelet and the death of the backend.
func TestAMDCounter(t *testing.T) {
	n := startAMD(t, amdtree.NewMI300X("QPX", "NPS1"), mixed, quickCounters, "amd.com/qpx_nps1", 32)
	n.mark("amd.com/qpx_nps1")
	n.raise(5, "gfx.ce")
	n.raise(5, "umc.ue")
	n.wantCounts("amd.com/qpx_nps1", 32, 28)
	for partition := range 4 {
		n.wantFault(fmt.Sprintf("%s-qpx-%d", n.id(5), partition), "ecc-uncorrectable")
	}
	n.wantNoDip("amd.com/qpx_nps1", 28)
	if err := n.kubelet.Restart(); err != nil {
		t.Fatal(err)
	}
	n.wantCounts("amd.com/qpx_nps1", 32, 28)

	n.mark("amd.com/qpx_nps1")
	before := n.backend("amd")
	if err := unix.Kill(before.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	n.eventually("the backend is back", func() bool { return n.backend("amd").Generation > before.Generation })
	n.wantCounts("amd.com/qpx_nps1", 32, 28)
	n.wantNoDip("amd.com/qpx_nps1", 28)
}

// Verifies that a GPU with a fault is reset by the driver together with its hive, not
// while a container holds one of it, and that this ends the fault without a restart.
func TestAMDReset(t *testing.T) {
	n := newAMDNode(t, amdtree.NewMI210())
	n.resets = "auto"
	n.configureAMD(single, quickCounters)
	n.startAMDAgent()
	n.wantCounts(amdGPU, 8, 8)
	first := n.allocate("pod", amdGPU, 1)[0]
	hive := n.device(first).Attributes["hive"]
	faulty := slices.IndexFunc(n.machine.GPUs, func(g amdtree.GPU) bool {
		return fmt.Sprintf("%016x", g.Hive) == hive && fmt.Sprintf("amdgpu-%016x", g.UniqueID) != first
	})
	n.eventually("the holder has a name", func() bool { return len(n.device(first).Holders) == 1 })
	n.raise(faulty, "umc.ue")
	n.wantProblem(n.id(faulty), "ecc-uncorrectable", "waits until")
	n.wantCounts(amdGPU, 8, 4)

	n.kubelet.Free("pod")
	n.wantProblem(n.id(faulty), "the last reset failed", "hostPID") // without debugfs it is by PCI
	for _, g := range n.machine.GPUs {
		dir := filepath.Join(n.tree.Sysfs(), "kernel/debug/dri", g.Address.String())
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "amdgpu_gpu_recover"), []byte("0\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n.wantCounts(amdGPU, 8, 8)
	if !n.logged(`msg="reset done" backend=amd devices=4`) {
		t.Error("no reset of a hive of four")
	}
}

// Verifies that a device that counts errors is found out before a container starts
// with it, though its counters are read once an hour.
func TestAMDPrepare(t *testing.T) {
	n := startAMD(t, amdtree.NewMI210(), single, "health: {interval: 1h}, prepare: {check: true}", amdGPU, 8)
	all := n.allocate("pod", amdGPU, 8)
	if _, err := n.kubelet.StartContainer(t.Context(), "pod", "main"); err != nil {
		t.Fatal(err)
	}
	n.raise(2, "sdma.ue")
	if _, err := n.kubelet.StartContainer(t.Context(), "pod", "main"); err == nil || !strings.Contains(err.Error(), n.id(2)) {
		t.Errorf("a container starts with %d GPUs: %v; want an error that names %s", len(all), err, n.id(2))
	}
	n.wantCounts(amdGPU, 8, 7)
	n.wantFault(n.id(2), "ecc-uncorrectable")
}

// Verifies that no container starts with a partition on which a process still has
// memory, as KFD tells, that the process is named, and that it does when that is gone.
func TestAMDLeftovers(t *testing.T) {
	n := newAMDNode(t, amdtree.NewMI300X("DPX", "NPS1"))
	namespaces := n.path("proc", "self", "ns") // those of the host, where all processes are seen
	n.change(os.MkdirAll(namespaces, 0o755))
	n.change(os.Symlink("pid:[4026531836]", filepath.Join(namespaces, "pid")))
	n.configureAMD(mixed, "prepare: {leftovers: fail}")
	n.startAMDAgent()
	n.wantCounts("amd.com/dpx_nps1", 16, 16)
	n.allocate("pod", "amd.com/dpx_nps1", 16)
	number, err := os.ReadFile(filepath.Join(n.tree.Node(6, 1), "gpu_id"))
	n.change(err)
	process := filepath.Join(n.tree.Sysfs(), "class/kfd/kfd/proc/4711")
	n.change(os.MkdirAll(process, 0o755))
	n.change(os.WriteFile(filepath.Join(process, "vram_"+strings.TrimSpace(string(number))), []byte("4096\n"), 0o600))
	_, err = n.kubelet.StartContainer(t.Context(), "pod", "main")
	if id := n.id(6) + "-dpx-1"; err == nil || !strings.Contains(err.Error(), id) || !strings.Contains(err.Error(), "4711") {
		t.Errorf("a container starts on what a process uses: %v; want an error that names %s and 4711", err, id)
	}
	n.change(os.RemoveAll(process))
	if _, err := n.kubelet.StartContainer(t.Context(), "pod", "main"); err != nil {
		t.Error(err)
	}
}

// "The plugin must be restarted after a change of the partition mode."
// Verifies that a style that is switched while everything runs makes the resource of
// the new style, its definitions before it is advertised; that a container keeps the
// definition of what it holds; and that the other GPUs never dip.
func TestAMDSwitch(t *testing.T) {
	n := startAMD(t, amdtree.NewMI300X("CPX", "NPS4"), mixed, "", amdCPX, 63)
	pid := n.backend("amd").PID
	of := func(id string) bool { return strings.HasPrefix(id, n.id(0)+"-") }
	held := ""
	for pod := 0; held == ""; pod++ {
		if id := n.allocate(fmt.Sprint("pod-", pod), amdCPX, 1)[0]; of(id) {
			held = id
			continue
		}
	}
	before := n.definitions()[held]
	n.eventually("the holder has a name", func() bool { return len(n.device(held).Holders) == 1 })
	n.mark(amdCPX)
	n.change(n.tree.SwitchPartition(0, "SPX", "NPS1"))
	n.wantCounts(amdSPX, 1, 1)
	n.wantCounts(amdCPX, 56, 55) // what is held stays visible
	n.wantNoDip(amdCPX, 55)
	n.wantProblem(held, "device-gone")
	if after := n.definitions()[held]; after != before || before == "" {
		t.Errorf("%s, which a container holds, is now %q, was %q", held, after, before)
	}
	n.wantWritten()
	n.change(n.tree.SwitchPartition(0, "DPX", "NPS1"))
	n.wantCounts("amd.com/dpx_nps1", 2, 2)
	n.wantCounts(amdSPX, 0, 0)
	n.wantWritten()
	n.change(n.tree.SwitchPartition(0, "CPX", "NPS4"))
	n.wantCounts(amdCPX, 63, 63)
	n.wantWritten()
	if now := n.backend("amd").PID; now != pid {
		t.Errorf("the backend is process %d, was %d", now, pid)
	}
}

// Verifies that a card that is unplugged costs one unit, and comes back with its ID.
func TestAMDUnplug(t *testing.T) {
	n := startAMD(t, amdtree.NewMI210(), single, "", amdGPU, 8)
	n.mark(amdGPU)
	n.change(n.tree.Unplug(3))
	n.wantCounts(amdGPU, 7, 7)
	if d := n.device(n.id(3)); d.ID != "" {
		t.Errorf("the card that is not there is listed: %+v", d)
	}
	n.change(n.tree.Plug(3))
	n.wantCounts(amdGPU, 8, 8)
	if d := n.device(n.id(3)); d.ID == "" {
		t.Error("the card has another ID")
	}
	n.wantNoDip(amdGPU, 7)
	n.wantWritten()
}

// "After the driver was loaded anew containers get another GPU's node."
// Verifies that GPUs are unhealthy while their driver is away, and that a driver that
// finds them in another order gives the same IDs, defined by their new nodes before
// they are advertised; and that a fault from before is over then.
func TestAMDReload(t *testing.T) {
	n := startAMD(t, amdtree.NewMI210(), single, quickCounters, amdGPU, 8)
	pid := n.backend("amd").PID
	n.raise(5, "umc.ue")
	n.wantCounts(amdGPU, 8, 7)
	n.change(n.tree.ReloadDriver())
	n.wantCounts(amdGPU, 8, 0)
	n.wantFault(n.id(0), "driver-unbound")
	n.change(n.tree.ReloadDriver(7, 6, 5, 4, 3, 2, 1, 0))
	n.wantCounts(amdGPU, 8, 8)
	n.wantWritten()
	definitions := n.definitions()
	for gpu := range n.machine.GPUs {
		_, renders := n.tree.Minors(gpu)
		if want := fmt.Sprintf(`"/dev/dri/renderD%d"`, renders[0]); !strings.Contains(definitions[n.id(gpu)], want) {
			t.Errorf("%s: %s; want %s", n.id(gpu), definitions[n.id(gpu)], want)
		}
	}
	if now := n.backend("amd").PID; now != pid {
		t.Errorf("the backend is process %d, was %d", now, pid)
	}
}

// Verifies that files of a card that never answer, or that are damaged, cost that card
// at most, and that the others are looked after meanwhile.
func TestAMDDamagedCard(t *testing.T) {
	for name, file := range map[string]string{"a file of the card": "current_compute_partition", "its counters": "ras/umc_err_count"} {
		t.Run(name, func(t *testing.T) {
			n := startAMD(t, amdtree.NewMI300X("DPX", "NPS1"), mixed, quickCounters, "amd.com/dpx_nps1", 16)
			pid := n.backend("amd").PID
			n.mark("amd.com/dpx_nps1")
			at, err := filepath.Rel(n.tree.Root, filepath.Join(n.tree.Device(4), file))
			n.change(err)
			n.change(n.tree.Spoil(at, amdtree.FIFO))
			n.wantProblem(n.id(4))
			n.raise(1, "umc.ue")
			n.eventually("the fault of another GPU is seen", func() bool { return len(n.device(n.id(1)+"-dpx-0").Faults) > 0 })
			n.wantNoDip("amd.com/dpx_nps1", 12)
			if now := n.backend("amd").PID; now != pid {
				t.Errorf("the backend is process %d, was %d", now, pid)
			}
		})
	}
}

// Verifies that what is measured is among the metrics, by the GPU and by its
// partitions, with who holds them.
func TestAMDTelemetry(t *testing.T) {
	n := startAMD(t, amdtree.NewMI300X("DPX", "NPS1"), mixed, quickCounters, "amd.com/dpx_nps1", 16)
	n.eventually("metrics are served", func() bool { return n.agent.MetricsAddress() != "" })
	n.raise(2, "umc.ce")
	id := n.allocate("team/train", "amd.com/dpx_nps1", 1)[0]
	for _, part := range []string{
		`accelmux_device_temperature_celsius{backend="amd"`,
		`accelmux_device_power_watts{backend="amd"`,
		fmt.Sprintf(`device="%s-dpx-1"`, n.id(7)),
	} {
		n.eventually("a metric with "+part, func() bool { return strings.Contains(n.metrics(), part) })
	}
	n.eventually("the counter of errors", func() bool {
		return slices.ContainsFunc(strings.Split(n.metrics(), "\n"), func(line string) bool {
			return strings.HasPrefix(line, "accelmux_device_ecc_errors_total{") && strings.HasSuffix(line, " 1") &&
				strings.Contains(line, n.id(2)) && strings.Contains(line, `block="umc"`) && strings.Contains(line, `type="corrected"`)
		})
	})
	n.eventually("the holder", func() bool {
		return slices.ContainsFunc(strings.Split(n.metrics(), "\n"), func(line string) bool {
			return strings.HasPrefix(line, "accelmux_device_memory_total_bytes{") && strings.Contains(line, id) && strings.Contains(line, `pod="train"`)
		})
	})
	if p := n.problems(); strings.Contains(p, "telemetry") {
		t.Errorf("what the backend sends breaks the rules:\n%s", p)
	}
}

// Verifies that mistakes in the settings are refused with the field's path, and that
// what runs is not touched.
func TestAMDSettingsAreStrict(t *testing.T) {
	n := startAMD(t, amdtree.NewMI210(), single, "", amdGPU, 8)
	pid := n.backend("amd").PID
	n.mark(amdGPU)
	for settings, parts := range map[string][]string{
		"helth: {}":                   {"amd", "helth", "unknown field"},
		"reset: {method: us}":         {"amd", "reset.method", "driver"},
		"health: {interval: 1ms}":     {"amd", "health.interval", "between 1s"},
		"health: {exporter: /a/../b}": {"amd", "health.exporter", "absolute path"},
	} {
		n.configureAMD(single, settings)
		n.wantProblem(parts...)
	}
	n.configureAMD(single, "")
	n.eventually("the good settings are in force", func() bool { return n.problems() == "" })
	n.wantNoDip(amdGPU, 8)
	if now := n.backend("amd").PID; now != pid {
		t.Errorf("the backend is process %d, was %d", now, pid)
	}
}

// Verifies that the chart's example values list the partitions of all styles, and the
// GPUs that have none, and that the one problem is the machine's GPUs of another vendor.
func TestAMDExample(t *testing.T) {
	text, err := os.ReadFile("../../deployments/helm/accelmux/examples/amd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct{ Config string }
	if err := yaml.Unmarshal(text, &values); err != nil || values.Config == "" {
		t.Fatalf("the example has no configuration: %v", err)
	}
	n := newAMDNode(t, amdtree.NewMixed())
	n.configure(values.Config)
	n.startAMDAgent()
	for resource, units := range map[string]int{amdGPU: 1, amdSPX: 1, amdCPX: 8, "amd.com/dpx_nps1": 2, "amd.com/qpx_nps1": 4} {
		n.wantCounts(resource, units, units)
	}
	if p := n.problems(); !strings.Contains(p, "add the backend nvidia") || strings.Contains(strings.TrimSpace(p), "\n") {
		t.Errorf("the problems are %q, want the NVIDIA GPUs alone", p)
	}
	n.wantWritten()
}
