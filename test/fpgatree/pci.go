package fpgatree

import (
	"fmt"
	"os"
	"path"

	"github.com/accelmux/accelmux/backends/pci"
)

const (
	intel = 0x8086
	// accelerator is the PCI class of FPGA cards: a processing accelerator.
	accelerator = 0x120000
)

// directory is that of a PCI function: below a root port of its card's own.
func directory(at pci.Address) string {
	port := pci.Address{Domain: at.Domain, Bus: at.Bus - 1, Device: 1, Function: 1}
	return path.Join(fmt.Sprintf("sys/devices/pci%04x:%02x", port.Domain, port.Bus), port.String(), at.String())
}

// plugCard makes the PCI side of a card: what is there whether or not it has a driver.
func (t *Tree) plugCard(i int) error {
	w, c := t.writer(), t.machine.Cards[i]
	t.bridge(w, c.Address, c.NUMA)
	for _, f := range c.Model.Functions {
		w.function(directory(c.at(f)), c.at(f), c.Model.Device, c.Model.Subsystem, accelerator, c.NUMA)
	}
	for _, f := range c.Model.Strangers {
		w.function(directory(c.at(f)), c.at(f), 0x1000, 0, accelerator, c.NUMA)
		w.File(directory(c.at(f))+"/vendor", "0x1af4\n")
	}
	pf := directory(c.Address)
	w.File(pf+"/sriov_totalvfs", fmt.Sprintln(max(c.VFs, 1)))
	w.File(pf+"/sriov_numvfs", fmt.Sprintln(c.VFs))
	for v := range c.VFs {
		vf := directory(c.vf(v))
		w.function(vf, c.vf(v), c.Model.Device+1, c.Model.Subsystem, accelerator, c.NUMA)
		w.Relative(vf+"/physfn", pf)
		w.Relative(fmt.Sprintf("%s/virtfn%d", pf, v), vf)
	}
	return w.Err
}

// bridge makes the root port above a function, if it is not there.
func (t *Tree) bridge(w *writer, at pci.Address, numa int) {
	dir := path.Dir(directory(at))
	if _, err := os.Stat(w.Path(dir)); err != nil {
		port := pci.Address{Domain: at.Domain, Bus: at.Bus - 1, Device: 1, Function: 1}
		w.function(dir, port, 0x6f08, 0, 0x060400, numa)
	}
}

func (w *writer) function(dir string, at pci.Address, device, subsystem uint16, class uint32, numa int) {
	for name, text := range map[string]string{
		"vendor": fmt.Sprintf("%#04x", intel), "device": fmt.Sprintf("0x%04x", device), "revision": "0x01",
		"class": fmt.Sprintf("0x%06x", class), "numa_node": fmt.Sprint(numa), "enable": "1",
		"subsystem_vendor": fmt.Sprintf("%#04x", intel), "subsystem_device": fmt.Sprintf("0x%04x", subsystem),
	} {
		w.File(path.Join(dir, name), text+"\n")
	}
	w.Relative("sys/bus/pci/devices/"+at.String(), dir)
}

// functions are all of a card.
func (c Card) functions() []pci.Address {
	var all []pci.Address
	for _, f := range c.Model.Functions {
		all = append(all, c.at(f))
	}
	for _, f := range c.Model.Strangers {
		all = append(all, c.at(f))
	}
	for v := range c.VFs {
		all = append(all, c.vf(v))
	}
	return all
}
