package fpgatree

import (
	"encoding/binary"
	"fmt"
	"path"
	"slices"

	"github.com/accelmux/accelmux/backends/pci"
)

// Plain is an FPGA of any vendor under Linux's FPGA subsystem: a manager, and regions
// that it programs.
type Plain struct {
	// Name is what the manager's driver calls itself.
	Name string
	// Device is where the manager's device is, below sys/devices. For one on PCI it is
	// below the function's directory, and may be empty.
	Device string
	// Node is where the manager is in the device tree; empty for none.
	Node string
	// PCI is the function that the manager is in; nil for none. Vendor, ID and Driver
	// are those of the function.
	PCI        *pci.Address
	Vendor, ID uint16
	Driver     string
	// State is what the manager says when it is found.
	State string
	// Firmware has the files firmware, flags and key, as kernels for AMD's SoCs do.
	Firmware bool
	// Misc has a node of the manager's own, /dev/fpgaN, as such kernels do.
	Misc bool
	// NoStatus has no file status, as kernels before 4.19.
	NoStatus bool
	// Sensor has a chip with a temperature below the manager's device.
	Sensor  bool
	Regions []PlainRegion
}

// PlainRegion is a region of a Plain, with what was made of it by a bitstream.
type PlainRegion struct {
	// Device is where the region's device is: below sys/devices, in a PCI function below
	// its directory, and for one within another below that.
	Device string
	// Node is where the region is in the device tree; empty for none.
	Node string
	// Compat is what compat_id says; the kernel has an error there if it is empty.
	Compat string
	// UIO are the devices in the region with a node, by name, such as "a0000000.dma".
	UIO []string
	// Nested are regions within it.
	Nested []PlainRegion
}

// NewZynqMP is a machine with a Zynq UltraScale+ under AMD's kernel: one region, two
// devices in it.
func NewZynqMP() Machine {
	return Machine{Plain: []Plain{{
		Name: "Xilinx ZynqMP FPGA Manager", Node: "firmware/zynqmp-firmware/pcap",
		Device: "platform/firmware:zynqmp-firmware/firmware:zynqmp-firmware:pcap",
		State:  "operating", Firmware: true, Misc: true,
		Regions: []PlainRegion{{
			Device: "platform/fpga-full", Node: "fpga-full", UIO: []string{"a0000000.dma", "a0010000.filter"},
		}},
	}}}
}

// NewZynq is a machine with a Zynq 7000 under Linux's own kernel, which has no file by
// which it is programmed, and no region.
func NewZynq() Machine {
	return Machine{Plain: []Plain{{
		Name: "Xilinx Zynq FPGA Manager", Node: "amba/devcfg@f8007000", Device: "platform/amba/f8007000.devcfg", State: "unknown",
	}}}
}

// NewArria10SoC is a machine with an Arria 10 SoC whose FPGA has a static part with two
// regions in it.
func NewArria10SoC() Machine {
	base := PlainRegion{Device: "platform/soc/soc:base_fpga_region", Node: "soc/base_fpga_region"}
	for i := range 2 {
		base.Nested = append(base.Nested, PlainRegion{
			Device: fmt.Sprintf("soc:base_fpga_region:pr%d", i), Node: fmt.Sprintf("soc/base_fpga_region/pr%d", i),
			UIO: []string{fmt.Sprintf("ff20%d000.uio", i)},
		})
	}
	return Machine{Plain: []Plain{{
		Name: "SoCFPGA Arria10 FPGA Manager", Node: "soc/fpga-mgr@ffd03000", Device: "platform/soc/ffd03000.fpga-mgr",
		State: "operating", Regions: []PlainRegion{base},
	}}}
}

// NewPlainPCI is a machine with a card on PCI whose manager is none of DFL, with a
// region and nodes in it.
func NewPlainPCI() Machine {
	return Machine{Plain: []Plain{{
		Name: "Example CvP FPGA Manager", PCI: &pci.Address{Bus: 0x5e}, Vendor: 0x1172, ID: 0xe003, Driver: "altera-cvp",
		State: "operating", Firmware: true, Sensor: true,
		Regions: []PlainRegion{{Compat: "d8424dc4a4a3c413f89e433683f9040b", UIO: []string{"dma.0.auto"}}},
	}}}
}

// NewPlainMixed is a machine with cards of Intel's, and with FPGAs of other kinds.
func NewPlainMixed() Machine {
	m := NewMixed()
	for _, other := range []Machine{NewZynqMP(), NewZynq(), NewArria10SoC(), NewPlainPCI()} {
		m.Plain = append(m.Plain, other.Plain...)
	}
	return m
}

const tree = "sys/firmware/devicetree/base"

// plugPlain makes what is there whether or not a driver is: PCI function, device tree.
func (t *Tree) plugPlain(i int) error {
	w, p := t.writer(), t.machine.Plain[i]
	if p.PCI != nil {
		bridge := pci.Address{Domain: p.PCI.Domain, Bus: p.PCI.Bus - 1, Device: 1, Function: 1}
		w.function(path.Dir(directory(*p.PCI)), bridge, 0x6f08, 0, 0x060400, 0)
		dir := directory(*p.PCI)
		w.function(dir, *p.PCI, p.ID, 0, accelerator, 0)
		w.File(dir+"/vendor", fmt.Sprintf("0x%04x\n", p.Vendor))
	}
	w.treeNode(p.Node, i+1, 0)
	w.regionNodes(p, i+1)
	return w.Err
}

// regionNodes makes the nodes of regions in the device tree. Only an outer region says
// which manager programs it; those in it have the same.
func (w *writer) regionNodes(p Plain, manager int) {
	var add func(r PlainRegion, manager int)
	add = func(r PlainRegion, manager int) {
		w.treeNode(r.Node, 0, manager)
		for _, n := range r.Nested {
			add(n, 0)
		}
	}
	for _, r := range p.Regions {
		add(r, manager)
	}
}

// treeNode makes a node of the device tree, with the number by which others mean it,
// and that of its manager; 0 for none.
func (w *writer) treeNode(node string, phandle, manager int) {
	if node == "" {
		return
	}
	cell := func(n int) string { return string(binary.BigEndian.AppendUint32(nil, uint32(n))) }
	dir := path.Join(tree, node)
	w.File(dir+"/name", path.Base(node)+"\x00")
	if phandle > 0 {
		w.File(dir+"/phandle", cell(phandle))
	}
	if manager > 0 {
		w.File(dir+"/fpga-mgr", cell(manager))
		w.File(dir+"/compatible", "fpga-region\x00")
	}
}

// dir is where a device of a Plain is.
func (p Plain) dir(device string) string {
	if p.PCI != nil {
		return path.Join(directory(*p.PCI), device)
	}
	return path.Join("sys/devices", device)
}

// loadPlain gives a Plain its drivers: the manager's, then the regions'.
func (t *Tree) loadPlain(l *loaded, i int) error {
	p := t.machine.Plain[i]
	w := t.writer()
	parent := p.dir(p.Device)
	w.Dir(parent)
	if p.Driver != "" {
		w.Relative(directory(*p.PCI)+"/driver", "sys/bus/pci/drivers/"+p.Driver)
		l.links = append(l.links, directory(*p.PCI)+"/driver")
	}
	n := t.take(l, "fpga")
	l.manager = n
	dir := fmt.Sprintf("%s/fpga_manager/fpga%d", parent, n)
	l.dirs = append(l.dirs, path.Dir(dir))
	w.File(dir+"/name", p.Name+"\n")
	w.File(dir+"/state", p.State+"\n")
	if !p.NoStatus {
		w.File(dir+"/status", "")
	}
	if p.Firmware {
		w.File(dir+"/firmware", "")
		w.File(dir+"/flags", "0\n")
		w.File(dir+"/key", "\n")
	}
	w.class(dir, "fpga_manager", parent, p.Node)
	t.classLink(w, l, "fpga_manager", dir)
	if p.Misc {
		misc := fmt.Sprintf("sys/devices/virtual/misc/fpga%d", n)
		w.File(misc+"/dev", fmt.Sprintf("10:%d\n", 60+n))
		w.File(misc+"/uevent", fmt.Sprintf("MAJOR=10\nMINOR=%d\nDEVNAME=fpga%d\n", 60+n, n))
		t.classLink(w, l, "misc", misc)
		w.Node(fmt.Sprintf("dev/fpga%d", n), 10, 60+n)
		l.nodes, l.dirs = append(l.nodes, fmt.Sprintf("dev/fpga%d", n)), append(l.dirs, misc)
	}
	if p.Sensor {
		chip := fmt.Sprintf("%s/hwmon/hwmon%d", parent, t.take(l, "hwmon"))
		for name, text := range map[string]string{"name": "cvp_hwmon", "temp1_input": "41500", "temp1_crit_alarm": "0", "temp1_label": "Die", "in0_input": "850"} {
			w.File(chip+"/"+name, text+"\n")
		}
		t.classLink(w, l, "hwmon", chip)
		l.dirs = append(l.dirs, path.Dir(chip))
	}
	for _, r := range p.Regions {
		t.plainRegion(w, l, p, r, "")
	}
	return w.Err
}

// class makes the links that a device of a class has.
func (w *writer) class(dir, class, parent, node string) {
	w.File(dir+"/uevent", "")
	w.Relative(dir+"/device", parent)
	w.Relative(dir+"/subsystem", "sys/class/"+class)
	if node != "" {
		w.Relative(dir+"/of_node", path.Join(tree, node))
		if w.missing(parent + "/of_node") {
			w.Relative(parent+"/of_node", path.Join(tree, node))
		}
	}
}

// plainRegion makes a region, what is in it, and the regions within; outer is the
// directory of the region that it is in, empty for none.
func (t *Tree) plainRegion(w *writer, l *loaded, p Plain, r PlainRegion, outer string) {
	parent := p.dir(r.Device)
	if outer != "" {
		parent = path.Join(outer, r.Device)
	}
	dir := fmt.Sprintf("%s/fpga_region/region%d", parent, t.take(l, "region"))
	l.dirs = append(l.dirs, path.Dir(dir))
	if r.Compat != "" {
		w.File(dir+"/compat_id", r.Compat+"\n")
	}
	w.class(dir, "fpga_region", parent, r.Node)
	t.classLink(w, l, "fpga_region", dir)
	for _, name := range r.UIO {
		device := path.Join(parent, name)
		n := t.take(l, "uio")
		node := fmt.Sprintf("uio%d", n)
		uio := path.Join(device, "uio", node)
		w.File(uio+"/dev", fmt.Sprintf("242:%d\n", n))
		w.File(uio+"/uevent", fmt.Sprintf("MAJOR=242\nMINOR=%d\nDEVNAME=%s\n", n, node))
		w.File(uio+"/maps/map0/size", "0x10000\n")
		w.Relative(uio+"/device", device)
		w.Relative(uio+"/subsystem", "sys/class/uio")
		t.classLink(w, l, "uio", uio)
		w.Node("dev/"+node, 242, n)
		l.nodes, l.dirs = append(l.nodes, "dev/"+node), append(l.dirs, device)
	}
	for _, nested := range slices.Clone(r.Nested) {
		t.plainRegion(w, l, p, nested, dir)
	}
}
