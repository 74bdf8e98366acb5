package ama

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/test/sysroot"
)

// machine is a sysfs with chips.
type machine struct{ sysroot.Files }

func newMachine(t *testing.T) machine {
	t.Helper()
	m := machine{sysroot.NewFiles(t)}
	m.File("bus/pci/drivers/transcoder/new_id", "")
	return m
}

// plug adds the chip number n at a PCI address.
func (m machine) plug(n int, at, device string) {
	m.PCI(".", at, "", map[string]string{"vendor": "0x10ee", "device": "0x" + device, "class": "0x120000", "numa_node": "1"})
	dir := fmt.Sprintf("class/misc/ama_transcoder%d/", n)
	m.File(dir+"bus_id", at+"\n")
	m.File(dir+"hw_err", "0x0\n")
	m.File(dir+"device_info", "Product name                 = ALVEO MA35D\nProduct serial number        = XFL1PC0NV2QP\nPCIe device ID = "+device+"\n")
}

func (m machine) read() driver.Reading { return New(m.Root).Read() }

// Chips of a card are listed by their PCI address, whatever the driver's numbers are. A function
// with virtual functions only manages; these are listed.
func TestRead(t *testing.T) {
	m := newMachine(t)
	m.plug(1, "0000:21:00.0", "5070")
	m.plug(0, "0000:22:00.0", "5070")
	m.plug(2, "0000:22:00.1", "5071")
	m.File("bus/pci/devices/0000:22:00.0/sriov_numvfs", "1\n")
	m.File("class/misc/ama_transcoder/bus_id", "not a device of the driver")
	r := m.read()
	if len(r.Cards) != 3 || len(r.Problems) > 0 || r.Unstable || r.Unloaded || len(r.Cards[1].Regions) != 0 || len(r.Cards[2].Regions) != 1 || !r.Cards[2].Virtual {
		t.Fatalf("%+v", r)
	}
	c := r.Cards[0]
	if c.ID != "ama-0000-21-00-0" || c.Board != c.ID || c.Serial != "XFL1PC0NV2QP" || c.Virtual || c.PCI.NUMANode != 1 ||
		c.Attributes["productName"].GetStringValue() != "ALVEO MA35D" || len(c.Faults) > 0 {
		t.Errorf("%+v", c)
	}
	g := c.Regions[0]
	if g.ID != c.ID || g.Name != "MA35" || g.Kind != driver.Platform || !slices.Equal(g.Nodes, []string{"/dev/ama_transcoder1"}) || g.Programmable {
		t.Errorf("%+v", g)
	}
}

// A fatal error of the chip is a fault until the driver reports none.
func TestFault(t *testing.T) {
	m := newMachine(t)
	m.plug(0, "0000:21:00.0", "5070")
	m.File("class/misc/ama_transcoder0/hw_err", "0xdeaddead\n")
	faults := m.read().Cards[0].Faults
	if len(faults) != 1 || faults[0].Code != "hardware-error" || !strings.Contains(faults[0].Text, "class/misc/ama_transcoder0/hw_err is \"0xdeaddead\"") {
		t.Errorf("%+v", faults)
	}
	m.Remove("class/misc/ama_transcoder0/hw_err") // an older driver
	if faults := m.read().Cards[0].Faults; len(faults) > 0 {
		t.Errorf("%+v", faults)
	}
}

// A file that cannot be read affects one chip, and is reported.
func TestDamage(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(m machine)
		want   string
	}{
		"no bus_id":   {func(m machine) { m.Remove("class/misc/ama_transcoder0/bus_id") }, "its driver has not finished"},
		"bus_id":      {func(m machine) { m.File("class/misc/ama_transcoder0/bus_id", "21:00\n") }, "class/misc/ama_transcoder0/bus_id"},
		"no function": {func(m machine) { m.Remove("bus/pci/devices/0000:21:00.0") }, "0000:21:00.0"},
		"other":       {func(m machine) { m.File("bus/pci/devices/0000:21:00.0/device", "0x5000\n") }, "10ee:5000 and no MA35D"},
		"twice":       {func(m machine) { m.File("class/misc/ama_transcoder0/bus_id", "0000:22:00.0\n") }, "ama_transcoder1 (lost true): it has the PCI address of ama_transcoder0"},
	} {
		m := newMachine(t)
		m.plug(0, "0000:21:00.0", "5070")
		m.plug(1, "0000:22:00.0", "5070")
		c.damage(m)
		if r := m.read(); len(r.Cards) != 1 || len(r.Problems) != 1 || !r.Problems[0].Lost || !strings.Contains(fpgatest.Problems(r.Problems)[0], c.want) {
			t.Errorf("%s: %d cards, problems %q, want %q", name, len(r.Cards), fpgatest.Problems(r.Problems), c.want)
		}
	}
}

// A chip that comes while the others are read has them read again; a machine that does not
// stop changing is reported.
func TestChanging(t *testing.T) {
	for limit, unstable := range map[int]bool{2: false, 100: true} {
		m, chips := newMachine(t), 0
		r := New(m.Root).read(func() {
			if chips < limit {
				m.plug(chips, fmt.Sprintf("0000:%02x:00.0", 0x21+chips), "5070")
				chips++
			}
		})
		if r.Unstable != unstable || !unstable && len(r.Cards) != limit {
			t.Errorf("with %d changes: unstable %t, %d cards", limit, r.Unstable, len(r.Cards))
		}
	}
}

// Without the kernel driver there is nothing to report.
func TestUnloaded(t *testing.T) {
	m := newMachine(t)
	if r := m.read(); r.Unloaded || len(r.Cards) > 0 {
		t.Errorf("%+v", r)
	}
	m.Remove("bus/pci/drivers/transcoder")
	if r := m.read(); !r.Unloaded {
		t.Errorf("%+v", r)
	}
	m.Remove("class/misc")
	m.File("class/misc", "")
	if r := m.read(); r.Unloaded || len(r.Problems) != 1 || !r.Problems[0].Lost {
		t.Errorf("of a class that cannot be listed: %+v", r)
	}
}

// Chips are neither programmed nor reset, and errors name what to do instead.
func TestNotOffered(t *testing.T) {
	m := newMachine(t)
	m.plug(0, "0000:21:00.0", "5070")
	c := m.read().Cards[0]
	if err := New(m.Root).Program(t.Context(), c, c.Regions[0], &bitstream.File{Path: "/x"}); err == nil || !strings.Contains(err.Error(), "not programmed") {
		t.Errorf("%v", err)
	}
	if _, err := New(m.Root).Reset(t.Context(), c, c.Regions[0]); err == nil || !strings.Contains(err.Error(), "load it again") {
		t.Errorf("%v", err)
	}
}
