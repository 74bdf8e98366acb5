package fpgatree

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/pci"
)

// Alveo is one card of AMD's under XRT's drivers: xclmgmt has the management function,
// xocl the user function.
type Alveo struct {
	Model AlveoModel
	// Address is that of the management function; the user function is the next one. A
	// card that has no management function here has its user function there.
	Address pci.Address
	// NUMA is what numa_node says; -1 for unknown.
	NUMA int
	// Serial is the number that the board's controller says; empty if it does not know.
	Serial string
	// Xclbin is the UUID of what is loaded, with dashes; empty for nothing.
	Xclbin string
	// UserOnly has the user function alone, as in a virtual machine; ManagementOnly the
	// other one alone, as on the host of that machine.
	UserOnly, ManagementOnly bool
}

// AlveoModel is a kind of card with a shell.
type AlveoModel struct {
	// Vendor and the others are PCI IDs.
	Vendor, Management, User, Subsystem uint16
	// Class is the PCI class.
	Class uint32
	// Board is board_name, such as u250.
	Board string
	// VBNV and Timestamp name the shell. The time is 0 for shells with interfaces.
	VBNV      string
	Timestamp uint64
	// Logic and Interfaces are the shell's UUIDs, 32 digits each; shells of one partition
	// have none, and the kernel's files cannot be read.
	Logic, Interfaces []string
	// Bare has no board controller, firewall or memory that the drivers show, as on AWS.
	Bare bool
	// Banks is how many banks of memory count their errors.
	Banks int
	// Sensors are files of the board's controller, without xmc_ before the name.
	Sensors map[string]int
}

// common are sensors of all boards: millivolts, milliamperes, degrees and microwatts.
var common = map[string]int{
	"12v_pex_vol": 12103, "12v_pex_curr": 1864, "3v3_pex_vol": 3303, "vccint_vol": 849, "vccint_curr": 9200,
	"fpga_temp": 41, "power": 22560392, "power_warn": 0, "fan_rpm": 1123, "dimm_temp0": 0, "12v_aux_vol": 0, "12v_aux_curr": 0,
}

// Models of cards, with names that their shells have.
var (
	U50 = AlveoModel{
		Vendor: 0x10ee, Management: 0x5020, User: 0x5021, Subsystem: 0x000e, Class: accelerator, Board: "u50", Banks: 2,
		VBNV: "xilinx_u50_gen3x16_xdma_base_5", Logic: []string{"8c1bd1bdf1e13f3bcc2ab1a1fe1fb04f"},
		Interfaces: []string{"b7ac1abe1e3e4cb686cc4a2b8f3d5a7d"}, Sensors: common,
	}
	U200 = AlveoModel{
		Vendor: 0x10ee, Management: 0x5000, User: 0x5001, Subsystem: 0x000e, Class: accelerator, Board: "u200", Banks: 4,
		VBNV: "xilinx_u200_xdma_201830_2", Timestamp: 1561465320, Sensors: common,
	}
	U250 = AlveoModel{
		Vendor: 0x10ee, Management: 0x5004, User: 0x5005, Subsystem: 0x000e, Class: accelerator, Board: "u250", Banks: 4,
		VBNV: "xilinx_u250_gen3x16_xdma_shell_4_1", Logic: []string{"12c8fafb0632499db1c0c6676271b8a6", "7c04ef9c3d6f4a1a8f0b4f1ce0d2a7b3"},
		Interfaces: []string{"f2b82d53372f45a4bbe9f3df2cb9d1c4"}, Sensors: common,
	}
	U280 = AlveoModel{
		Vendor: 0x10ee, Management: 0x500c, User: 0x500d, Subsystem: 0x000e, Class: accelerator, Board: "u280", Banks: 2,
		VBNV: "xilinx_u280_xdma_201920_3", Timestamp: 1579649056, Sensors: common,
	}
	U55C = AlveoModel{
		Vendor: 0x10ee, Management: 0x505c, User: 0x505d, Subsystem: 0x000e, Class: accelerator, Board: "u55c", Banks: 2,
		VBNV: "xilinx_u55c_gen3x16_xdma_base_3", Logic: []string{"97088961fedadaf91701ab9b0ee4c5d8"},
		Interfaces: []string{"862c7020a25058f8b6da8b8a1fd8e2a1"}, Sensors: common,
	}
	U30 = AlveoModel{
		Vendor: 0x10ee, Management: 0x513c, User: 0x513d, Subsystem: 0x000e, Class: accelerator, Board: "u30", Banks: 1,
		VBNV: "xilinx_u30_gen3x4_base_2", Logic: []string{"9d3c0bfb1d9f4b1b9d1d3ae7a6a3a3f2"},
		Interfaces: []string{"d8cb0a7e8e3c4e6f8f0f7f9a31f8f6b5"}, Sensors: common,
	}
	F1 = AlveoModel{
		Vendor: 0x1d0f, User: 0x1042, Subsystem: 0x1d51, Class: 0x058000, Board: "xilinx_aws-vu9p-f1", Bare: true,
		VBNV: "xilinx_aws-vu9p-f1_dynamic-shell", Timestamp: 0,
	}
)

// NewAlveo is a machine with one card of a model.
func NewAlveo(m AlveoModel) Machine {
	return Machine{Alveos: []Alveo{{Model: m, Address: pci.Address{Bus: 0x65}, Serial: "21770205K01Y", UserOnly: m.Management == 0}}}
}

// NewU30 is a machine with the two FPGAs of one U30, which have the board's serial number.
func NewU30() Machine {
	m := NewAlveo(U30)
	m.Alveos = append(m.Alveos, m.Alveos[0])
	m.Alveos[1].Address.Bus++
	return m
}

// NewAlveos is a machine with cards of each model on two sockets and in two PCI
// domains, one of which has its user function in a virtual machine.
func NewAlveos() Machine {
	m := Machine{}
	for i, model := range []AlveoModel{U50, U200, U250, U280, U55C, F1} {
		c := NewAlveo(model).Alveos[0]
		c.Address.Bus, c.NUMA, c.Serial = uint8(0x11+0x10*i), i%2, fmt.Sprintf("2177020%dK0%dA", i, i)
		m.Alveos = append(m.Alveos, c)
	}
	m.Alveos[1].Xclbin = "6d3f2c1e-54a8-4c0e-9f0d-6f1f1f0a7b21"
	m.Alveos[3].Address.Domain = 0x10000
	m.Alveos[4].ManagementOnly = true
	m.Alveos[5].Serial = ""
	return m
}

// NewVendors is a machine with cards of Intel's and of AMD's.
func NewVendors() Machine {
	m := NewMixed()
	m.Alveos = []Alveo{NewAlveo(U250).Alveos[0], NewAlveo(U50).Alveos[0]}
	m.Alveos[1].Address.Bus, m.Alveos[1].Serial = 0x66, "XFL1RTOJJAZX"
	return m
}

// function is the address of a function; false if the card does not have it here.
func (c Alveo) function(side Side) (pci.Address, bool) {
	if side == Management {
		return c.Address, !c.UserOnly
	}
	at := c.Address
	if !c.UserOnly {
		at.Function++
	}
	return at, !c.ManagementOnly
}

// sides are the functions that the card has here.
func (c Alveo) sides() []Side {
	return slices.DeleteFunc([]Side{Management, User}, func(side Side) bool { _, ok := c.function(side); return !ok })
}

// functions are their addresses.
func (c Alveo) functions() []pci.Address {
	var all []pci.Address
	for _, side := range c.sides() {
		at, _ := c.function(side)
		all = append(all, at)
	}
	return all
}

// plugAlveo makes the PCI side of a card.
func (t *Tree) plugAlveo(i int) error {
	w, c := t.writer(), t.machine.Alveos[i]
	t.bridge(w, c.Address, c.NUMA)
	for _, at := range c.functions() {
		device := c.Model.Management
		if user, _ := c.function(User); user == at {
			device = c.Model.User
		}
		dir := directory(at)
		w.function(dir, at, device, c.Model.Subsystem, c.Model.Class, c.NUMA)
		w.File(dir+"/vendor", fmt.Sprintf("0x%04x\n", c.Model.Vendor))
		w.File(dir+"/rom", "") // the expansion ROM, which every kernel shows
		w.File(dir+"/subsystem_vendor", fmt.Sprintf("0x%04x\n", c.Model.Vendor))
	}
	return w.Err
}

// loadAlveo gives a card XRT's drivers, the management function first.
func (t *Tree) loadAlveo(l *loaded, i int) error {
	w, c := t.writer(), t.machine.Alveos[i]
	if at, ok := c.function(Management); ok {
		t.loadManagement(w, l, c, at)
	}
	if at, ok := c.function(User); ok {
		t.loadUser(w, l, c, at)
	}
	return w.Err
}

// instance is the number that XRT knows a function by (XOCL_DEV_ID), which has 32 bits.
func instance(at pci.Address) int {
	return int(at.Domain<<16 | uint32(at.Bus)<<8 | uint32(at.Device)<<3 | uint32(at.Function))
}

// kinds are XRT's numbers of subdevices, which are in the upper half of their instance.
var kinds = []string{"rom", "firewall", "mig", "xmc", "icap", "mailbox"}

// subdevice makes the directory of a subdevice, of the management side ("m") or the
// user's ("u").
func (t *Tree) subdevice(w *writer, l *loaded, function, kind, side string, files map[string]string) {
	n := slices.Index(kinds, kind)<<20 | t.take(l, kind)
	dir := fmt.Sprintf("%s/%s.%s.%d", function, kind, side, n)
	w.Dir(dir)
	for name, text := range files {
		w.File(path.Join(dir, name), text+"\n")
	}
	l.dirs = append(l.dirs, dir)
}

// lines is what a file with several UUIDs has.
func lines(all []string) string { return strings.Join(all, "\n") }
