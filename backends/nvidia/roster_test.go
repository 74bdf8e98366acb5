package nvidia

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
)

const (
	uuidA = "GPU-aaaaaaaa-0000-0000-0000-000000000000"
	uuidB = "GPU-bbbbbbbb-0000-0000-0000-000000000000"
	busA  = "0000:65:00.0"
	busB  = "10000:01:00.0" // a domain wider than 16 bits
)

func nobody(string) string { return "" }

// plug puts a PCI device into sysfs.
func plug(t *testing.T, sysfs, bus string, numa int) {
	t.Helper()
	dir := filepath.Join(sysfs, "bus/pci/devices", bus)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"vendor": "0x10de", "device": "0x2330", "class": "0x030200", "numa_node": fmt.Sprint(numa),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func pair(first, second driver.GPU) driver.Snapshot {
	return driver.Snapshot{GPUs: []driver.GPU{first, second}}
}

// A GPU that says nothing any more is known by its place on the bus, and keeps what
// it was; so is one that another process has seen, by the kernel module's word.
func TestIdentityOfTheDead(t *testing.T) {
	sysfs := t.TempDir()
	plug(t, sysfs, busA, 1)
	plug(t, sysfs, busB, -1)
	r := newRoster()
	a := driver.GPU{UUID: uuidA, PCIBusID: busA, Name: "NVIDIA A", MemoryBytes: 1 << 30}
	lost := driver.GPU{Index: 1, PCIBusID: busB, Err: fmt.Errorf("index 1: %w", driver.ErrLost)}
	r.take(pair(a, lost), time.Now(), sysfs, func(bus string) string {
		if bus == busB {
			return uuidB
		}
		return ""
	})
	if r.gpus[uuidB] == nil || len(r.strangers) > 0 {
		t.Fatalf("the kernel module's word does not count: %v, strangers %q", r.gpus, r.strangers)
	}
	if r.gpus[uuidA].at.NUMANode != 1 || r.gpus[uuidB].at.NUMANode != -1 {
		t.Errorf("NUMA nodes are %d and %d, want 1 and unknown", r.gpus[uuidA].at.NUMANode, r.gpus[uuidB].at.NUMANode)
	}
	silent := driver.GPU{Index: 0, PCIBusID: busA, Err: driver.ErrLost}
	r.take(pair(silent, lost), time.Now(), sysfs, nobody)
	known := r.gpus[uuidA]
	if known == nil || known.gpu.Name != "NVIDIA A" || known.gpu.MemoryBytes != 1<<30 || !errors.Is(known.gpu.Err, driver.ErrLost) {
		t.Errorf("the dead GPU is %+v, want what it was, with the error", known)
	}
}

// GPUs of which NVML says nothing at all are those that the driver has on the bus and
// that NVML knows no other GPU at; if it cannot be told which, they are strangers. The
// bus has a GPU of another driver too, which is none of them.
func TestPlaceOfTheDead(t *testing.T) {
	sysfs := t.TempDir()
	bind := func(bus, driver string) {
		t.Helper()
		plug(t, sysfs, bus, 1)
		if err := os.Symlink("../../../../bus/pci/drivers/"+driver, filepath.Join(sysfs, "bus/pci/devices", bus, "driver")); err != nil {
			t.Fatal(err)
		}
	}
	const third = "0000:66:00.0"
	bind(busA, driverNVIDIA)
	bind(busB, driverNVIDIA)
	bind("0000:01:00.0", "vfio-pci")
	identify := func(bus string) string { return map[string]string{busA: uuidA, busB: uuidB}[bus] }
	dead := driver.GPU{Index: 1, Minor: -1, Err: driver.ErrLost}
	r := newRoster()
	a := driver.GPU{UUID: uuidA, PCIBusID: busA}
	r.take(pair(a, dead), time.Now(), sysfs, identify)
	known := r.gpus[uuidB]
	if known == nil || known.gpu.PCIBusID != busB || known.at.NUMANode != 1 || !errors.Is(known.gpu.Err, driver.ErrLost) || len(r.strangers) > 0 {
		t.Fatalf("the dead GPU is %+v, strangers %q", known, r.strangers)
	}

	// Both are dead, in the order of the bus.
	r = newRoster()
	r.take(pair(driver.GPU{Err: driver.ErrReset}, dead), time.Now(), sysfs, identify)
	if r.gpus[uuidA] == nil || r.gpus[uuidB] == nil || !errors.Is(r.gpus[uuidA].gpu.Err, driver.ErrReset) {
		t.Errorf("the dead GPUs are %v, strangers %q", r.gpus, r.strangers)
	}

	// Without the kernel module's word it is known at least where it is.
	r = newRoster()
	r.take(pair(a, dead), time.Now(), sysfs, nobody)
	if len(r.gpus) != 1 || len(r.strangers) != 1 || !strings.HasPrefix(r.strangers[0], busB+": ") {
		t.Errorf("the GPUs are %v, strangers %q, want one at %s", r.gpus, r.strangers, busB)
	}
	r.overlooked([]mismatch{{busID: busA}, {busID: busB}, {busID: third}}, true)
	if len(r.strangers) != 2 || !strings.HasPrefix(r.strangers[1], third+": ") {
		t.Errorf("strangers are %q, want one more, at %s", r.strangers, third)
	}

	// One is dead, and two places are free.
	bind(third, driverNVIDIA)
	r = newRoster()
	r.take(pair(a, dead), time.Now(), sysfs, identify)
	if len(r.gpus) != 1 || len(r.strangers) != 1 || !strings.Contains(r.strangers[0], "unknown bus ID") {
		t.Errorf("the GPUs are %v, strangers %q, want one at an unknown place", r.gpus, r.strangers)
	}
}

// A GPU that the driver lists no more stays as long as it is on the bus, and goes
// when it is unplugged.
func TestUnplugged(t *testing.T) {
	sysfs := t.TempDir()
	plug(t, sysfs, busA, 0)
	plug(t, sysfs, busB, 0)
	a, b := driver.GPU{UUID: uuidA, PCIBusID: busA}, driver.GPU{UUID: uuidB, PCIBusID: busB}
	r := newRoster()
	r.take(pair(a, b), time.Now(), sysfs, nobody)
	r.take(driver.Snapshot{GPUs: []driver.GPU{a}}, time.Now(), sysfs, nobody)
	r.forget(sysfs)
	if r.gpus[uuidB] == nil || r.gpus[uuidB].missing.IsZero() {
		t.Fatal("a GPU that is on the bus was forgotten, or is not missing")
	}
	if err := os.RemoveAll(filepath.Join(sysfs, "bus/pci/devices", busB)); err != nil {
		t.Fatal(err)
	}
	r.forget(sysfs)
	if r.gpus[uuidB] != nil || r.gpus[uuidA] == nil {
		t.Errorf("left are %v, want the one that was not unplugged", r.gpus)
	}
}

// What the kernel module says of a GPU is read strictly.
func TestIdentifier(t *testing.T) {
	procfs := t.TempDir()
	for bus, text := range map[string]string{
		busA:           "Model: \t\t NVIDIA H100\nGPU UUID: \t " + uuidA + "\nBus Type: \t PCIe\n",
		"0000:66:00.0": "GPU UUID: \t GPU-????????-????-????-????-????????????\n",
		"0000:67:00.0": "",
	} {
		dir := filepath.Join(procfs, "driver/nvidia/gpus", bus)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "information"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	identify := identifier(procfs)
	for bus, want := range map[string]string{busA: uuidA, "0000:66:00.0": "", "0000:67:00.0": "", "0000:68:00.0": "", "": ""} {
		if got := identify(bus); got != want {
			t.Errorf("the GPU at %q is %q, want %q", bus, got, want)
		}
	}
}
