package gpu

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/test/sysroot"
)

const (
	uuidA = "GPU-aaaaaaaa-0000-0000-0000-000000000000"
	uuidB = "GPU-bbbbbbbb-0000-0000-0000-000000000000"
	busA  = "0000:65:00.0"
	busB  = "10000:01:00.0" // a domain wider than 16 bits
)

// machine is the files of a host, with its PCI devices in sys.
type machine struct{ sysroot.Files }

func newMachine(t *testing.T) machine { return machine{sysroot.NewFiles(t)} }

func (m machine) host() sdk.HostPaths {
	return sdk.HostPaths{Sysfs: m.Path("sys"), Procfs: m.Path("proc")}
}

// plug adds a GPU to sysfs, with a driver unless that is "".
func (m machine) plug(bus, driver string, numa int) {
	m.PCI("sys", bus, driver, map[string]string{"vendor": "0x10de", "device": "0x2330", "class": "0x030200", "numa_node": fmt.Sprint(numa)})
}

// inform writes the kernel module's file about the GPU at a bus ID.
func (m machine) inform(bus, text string) {
	m.File("proc/driver/nvidia/gpus/"+bus+"/information", text)
}

func pair(first, second driver.GPU) driver.Snapshot {
	return driver.Snapshot{GPUs: []driver.GPU{first, second}}
}

// scan identifies the GPUs of a snapshot by those that are known, as scans do.
func scan(s driver.Snapshot, known []Reading, host sdk.HostPaths) (map[string]Reading, []Reading, []engine.Problem) {
	found, problems := Identify(s, known, Mismatches(s, known, host, func(int) error { return nil }), host)
	by := map[string]Reading{}
	for _, r := range found {
		by[r.UUID] = r
	}
	return by, found, problems
}

// Verifies that a GPU for which NVML returns no UUID any more is found by its PCI address and keeps
// its earlier values, and that one that was not known gets its UUID from procfs.
func TestIdentityOfTheDead(t *testing.T) {
	m := newMachine(t)
	host := m.host()
	m.plug(busA, DriverName, 1)
	m.plug(busB, DriverName, -1)
	m.inform(busB, "GPU UUID: \t "+uuidB+"\n")
	a := driver.GPU{UUID: uuidA, PCIBusID: busA, Name: "NVIDIA A", MemoryBytes: 1 << 30}
	lost := driver.GPU{Index: 1, PCIBusID: busB, Err: fmt.Errorf("index 1: %w", driver.ErrLost)}
	r, known, problems := scan(pair(a, lost), nil, host)
	if _, ok := r[uuidB]; !ok || len(problems) > 0 {
		t.Fatalf("procfs does not identify the GPU: %v, problems %v", r, problems)
	}
	if r[uuidA].At.NUMANode != 1 || r[uuidB].At.NUMANode != -1 {
		t.Errorf("NUMA nodes are %d and %d, want 1 and unknown", r[uuidA].At.NUMANode, r[uuidB].At.NUMANode)
	}
	silent := driver.GPU{Index: 0, PCIBusID: busA, Err: driver.ErrLost}
	r, known, _ = scan(pair(silent, lost), known, host)
	if dead := r[uuidA]; dead.Name != "NVIDIA A" || dead.MemoryBytes != 1<<30 || !errors.Is(dead.Err, driver.ErrLost) {
		t.Errorf("the dead GPU is %+v, want what it was, with the error", dead)
	}

	// The PCI bus never had the GPU, so it was not unplugged.
	const uuidC = "GPU-c"
	_, known, _ = scan(pair(a, driver.GPU{UUID: uuidC, PCIBusID: "0000:66:00.0"}), known, host)
	r, _, _ = scan(pair(a, driver.GPU{UUID: uuidC, PCIBusID: "0000:66:00.0", Err: driver.ErrLost}), known, host)
	if dead, ok := r[uuidC]; !ok || !errors.Is(dead.Err, driver.ErrLost) {
		t.Errorf("the dead GPU that the PCI bus never had is %+v", dead)
	}
}

// Verifies that GPUs of which NVML reports only the index get the addresses at which NVIDIA's driver
// is bound and NVML lists no other GPU. If their number differs, the GPUs are problems. Addresses
// with another driver do not count.
func TestPlaceOfTheDead(t *testing.T) {
	m := newMachine(t)
	host := m.host()
	const third = "0000:66:00.0"
	m.plug(busA, DriverName, 1)
	m.plug(busB, DriverName, 1)
	m.plug("0000:01:00.0", "vfio-pci", 1)
	for bus, uuid := range map[string]string{busA: uuidA, busB: uuidB} {
		m.inform(bus, "GPU UUID: \t "+uuid+"\n")
	}
	dead := driver.GPU{Index: 1, Minor: -1, Err: driver.ErrLost}
	a := driver.GPU{UUID: uuidA, PCIBusID: busA}
	r, _, problems := scan(pair(a, dead), nil, host)
	if known := r[uuidB]; known.PCIBusID != busB || known.At.NUMANode != 1 || !errors.Is(known.Err, driver.ErrLost) || len(problems) > 0 {
		t.Fatalf("the dead GPU is %+v, problems %v", known, problems)
	}

	// Both have failed, in the order of the bus.
	r, _, problems = scan(pair(driver.GPU{Err: driver.ErrReset}, dead), nil, host)
	if len(r) != 2 || !errors.Is(r[uuidA].Err, driver.ErrReset) {
		t.Errorf("the dead GPUs are %v, problems %v", r, problems)
	}

	// Without procfs only the address is known.
	r, _, problems = scan(pair(a, dead), nil, sdk.HostPaths{Sysfs: host.Sysfs, Procfs: t.TempDir()})
	if len(r) != 1 || len(problems) != 1 || problems[0].Device != busB {
		t.Errorf("the GPUs are %v, problems %v, want one at %s", r, problems, busB)
	}

	// One has failed, and two addresses are free: both are problems, beside that of the GPU at an unknown place.
	m.plug(third, DriverName, 1)
	r, _, problems = scan(pair(a, dead), nil, host)
	var at []string
	for _, p := range problems {
		at = append(at, p.Device)
	}
	if len(r) != 1 || !slices.Equal(at, []string{"a GPU at an unknown bus ID", third, busB}) {
		t.Errorf("the GPUs are %v, problems %v, want one at an unknown place and two that are not listed", r, problems)
	}
}

// Verifies that a GPU that NVML no longer lists is found while NVIDIA's driver is bound to
// it, with an error. Otherwise the GPU was removed or has another driver, and the engine decides what that means.
func TestNotListed(t *testing.T) {
	m := newMachine(t)
	host := m.host()
	m.plug(busA, DriverName, 1)
	m.plug(busB, DriverName, 1)
	a, b := driver.GPU{UUID: uuidA, PCIBusID: busA}, driver.GPU{UUID: uuidB, PCIBusID: busB}
	_, known, _ := scan(pair(a, b), nil, host)
	one := driver.Snapshot{GPUs: []driver.GPU{a}}
	r, again, _ := scan(one, known, host)
	if !errors.Is(r[uuidB].Err, errUnlisted) || r[uuidA].Err != nil {
		t.Fatalf("a GPU that the driver has is %+v", r[uuidB])
	}
	m.Remove("sys/bus/pci/devices/" + busB + "/driver")
	if r, _, _ = scan(one, again, host); len(r) != 1 || r[uuidA].UUID == "" {
		t.Errorf("left are %v, want the one that the driver has", r)
	}
}

// Verifies that the kernel module's file about a GPU is parsed strictly.
func TestIdentifier(t *testing.T) {
	m := newMachine(t)
	for bus, text := range map[string]string{
		busA:           "Model: \t\t NVIDIA H100\nGPU UUID: \t " + uuidA + "\nBus Type: \t PCIe\n",
		"0000:66:00.0": "GPU UUID: \t GPU-????????-????-????-????-????????????\n",
		"0000:67:00.0": "",
	} {
		m.inform(bus, text)
	}
	for bus, want := range map[string]string{busA: uuidA, "0000:66:00.0": "", "0000:67:00.0": "", "0000:68:00.0": "", "": ""} {
		if got := identifier(m.Path("proc"), bus); got != want {
			t.Errorf("the GPU at %q is %q, want %q", bus, got, want)
		}
	}
}

// Verifies that the number of XID codes that are counted separately is bounded.
func TestXIDCounts(t *testing.T) {
	counts := xidCounts{}
	for code := range uint64(1000) {
		counts.add(code)
		counts.add(13)
	}
	if len(counts) != maxXIDs+1 || counts["13"] != 1001 || counts[otherXIDs] != 1000-maxXIDs {
		t.Errorf("%d codes, 13: %d, other: %d", len(counts), counts["13"], counts[otherXIDs])
	}
}
