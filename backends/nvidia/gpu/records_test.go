package gpu

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/xid"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/test/sysroot"
)

const (
	uuidA = "GPU-aaaaaaaa-0000-0000-0000-000000000000"
	uuidB = "GPU-bbbbbbbb-0000-0000-0000-000000000000"
	busA  = "0000:65:00.0"
	busB  = "10000:01:00.0" // a domain wider than 16 bits
)

// noHost returns a host without GPUs in sysfs and procfs.
func noHost(t *testing.T) sdk.HostPaths {
	t.Helper()
	return sdk.HostPaths{Sysfs: t.TempDir(), Procfs: t.TempDir()}
}

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

// Verifies that a GPU for which NVML returns no UUID any more is found by its PCI address and keeps
// its earlier values, and that one without a record gets its UUID from procfs.
func TestIdentityOfTheDead(t *testing.T) {
	m := newMachine(t)
	host := m.host()
	m.plug(busA, "", 1)
	m.plug(busB, "", -1)
	m.inform(busB, "GPU UUID: \t "+uuidB+"\n")
	r := Records{}
	a := driver.GPU{UUID: uuidA, PCIBusID: busA, Name: "NVIDIA A", MemoryBytes: 1 << 30}
	lost := driver.GPU{Index: 1, PCIBusID: busB, Err: fmt.Errorf("index 1: %w", driver.ErrLost)}
	problems := r.Take(pair(a, lost), host)
	if r[uuidB] == nil || len(problems) > 0 {
		t.Fatalf("procfs does not identify the GPU: %v, problems %v", r, problems)
	}
	if r[uuidA].At.NUMANode != 1 || r[uuidB].At.NUMANode != -1 {
		t.Errorf("NUMA nodes are %d and %d, want 1 and unknown", r[uuidA].At.NUMANode, r[uuidB].At.NUMANode)
	}
	silent := driver.GPU{Index: 0, PCIBusID: busA, Err: driver.ErrLost}
	r.Take(pair(silent, lost), host)
	known := r[uuidA]
	if known == nil || known.GPU.Name != "NVIDIA A" || known.GPU.MemoryBytes != 1<<30 || !errors.Is(known.GPU.Err, driver.ErrLost) {
		t.Errorf("the dead GPU is %+v, want what it was, with the error", known)
	}

	// The PCI bus never had the GPU, so it was not unplugged.
	const uuidC = "GPU-c"
	r.Take(pair(a, driver.GPU{UUID: uuidC, PCIBusID: "0000:66:00.0"}), host)
	r.Take(pair(a, driver.GPU{UUID: uuidC, PCIBusID: "0000:66:00.0", Err: driver.ErrLost}), host)
	if known := r[uuidC]; known == nil || !errors.Is(known.GPU.Err, driver.ErrLost) {
		t.Errorf("the dead GPU that the PCI bus never had is %+v", known)
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
	r := Records{}
	a := driver.GPU{UUID: uuidA, PCIBusID: busA}
	problems := r.Take(pair(a, dead), host)
	known := r[uuidB]
	if known == nil || known.GPU.PCIBusID != busB || known.At.NUMANode != 1 || !errors.Is(known.GPU.Err, driver.ErrLost) || len(problems) > 0 {
		t.Fatalf("the dead GPU is %+v, problems %v", known, problems)
	}

	// Both have failed, in the order of the bus.
	r = Records{}
	problems = r.Take(pair(driver.GPU{Err: driver.ErrReset}, dead), host)
	if r[uuidA] == nil || r[uuidB] == nil || !errors.Is(r[uuidA].GPU.Err, driver.ErrReset) {
		t.Errorf("the dead GPUs are %v, problems %v", r, problems)
	}

	// Without procfs only the address is known.
	r = Records{}
	problems = r.Take(pair(a, dead), sdk.HostPaths{Sysfs: host.Sysfs, Procfs: t.TempDir()})
	if len(r) != 1 || len(problems) != 1 || problems[0].Device != busB {
		t.Errorf("the GPUs are %v, problems %v, want one at %s", r, problems, busB)
	}
	problems = r.Overlooked([]Mismatch{{busID: busA}, {busID: busB}, {busID: third}}, true, problems)
	if len(problems) != 2 || problems[1].Device != third {
		t.Errorf("problems are %v, want one more, at %s", problems, third)
	}

	// One has failed, and two addresses are free.
	m.plug(third, DriverName, 1)
	r = Records{}
	problems = r.Take(pair(a, dead), host)
	if len(r) != 1 || len(problems) != 1 || !strings.Contains(problems[0].Device, "unknown bus ID") {
		t.Errorf("the GPUs are %v, problems %v, want one at an unknown place", r, problems)
	}
}

// Verifies that the record of a GPU that NVML no longer lists stays while NVIDIA's driver is bound to
// it. Otherwise the GPU was removed or has another driver, and the engine decides what that means.
func TestNotListed(t *testing.T) {
	m := newMachine(t)
	host := m.host()
	m.plug(busA, DriverName, 1)
	m.plug(busB, DriverName, 1)
	a, b := driver.GPU{UUID: uuidA, PCIBusID: busA}, driver.GPU{UUID: uuidB, PCIBusID: busB}
	r := Records{}
	r.Take(pair(a, b), host)
	r.Take(driver.Snapshot{GPUs: []driver.GPU{a}}, host)
	if r[uuidB] == nil || !r[uuidB].missing {
		t.Fatal("a GPU that the driver has was dropped, or is not missing")
	}
	m.Remove("sys/bus/pci/devices/" + busB + "/driver")
	r.Take(driver.Snapshot{GPUs: []driver.GPU{a}}, host)
	if r[uuidB] != nil || r[uuidA] == nil {
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

// Verifies that a reset counts as successful once its GPU is read without an error or a fault of
// conditions: this clears all faults of earlier events of that GPU, and none of another GPU.
func TestFaultsAfterReset(t *testing.T) {
	now := time.Now()
	yes := true
	for name, c := range map[string]struct {
		gpu     driver.GPU
		missing bool
		cleared bool // the faults are cleared
		waits   bool // the GPU is Resetting
	}{
		"healthy":     {cleared: true},
		"no answer":   {gpu: driver.GPU{Err: driver.ErrReset}, waits: true},
		"missing":     {missing: true, waits: true},
		"a condition": {gpu: driver.GPU{Condition: driver.Condition{RemapFailed: &yes}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := Records{}
			read := Reading{Began: now.Add(time.Second), UUIDs: []string{uuidA, uuidB}}
			for _, uuid := range read.UUIDs {
				c.gpu.UUID = uuid
				r[uuid] = &Record{GPU: c.gpu, xids: xidCounts{}, faults: map[scope]fault{whole: {health: sdk.Fault("xid-48", sdk.RecoveryReset, "x")}}}
				read.Events = append(read.Events, driver.Event{Type: driver.EventXID, XID: 79, GPU: uuid, Time: now.Add(-time.Second)})
			}
			a, b := r[uuidA], r[uuidB]
			a.missing, a.reset = c.missing, now
			r.Judge(read, tableOf(t, xid.Settings{}), slog.New(slog.DiscardHandler))
			if got := len(a.faults) == 0; got != c.cleared {
				t.Errorf("faults are %v, want none: %v", a.faults, c.cleared)
			}
			if a.xids["79"] != 0 != c.waits || a.reset.IsZero() == c.waits {
				t.Errorf("events %v, reset %v", a.xids, a.reset)
			}
			if len(b.faults) == 0 || b.xids["79"] != 1 {
				t.Error("the other GPU lost a fault or an event")
			}
		})
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
