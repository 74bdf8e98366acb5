package intel

import (
	"fmt"

	"github.com/accelmux/accelmux/backends/pci"
)

// PCI IDs that need more than a name.
const (
	vendorIntel = 0x8086
	// deviceDFL and deviceDFLVF are those of all cards of the Open FPGA Stack: the subsystem
	// distinguishes them.
	deviceDFL, deviceDFLVF = 0xbcce, 0xbccf
)

// models are the cards that the drivers support (dfl-pci.c in Linux's drivers/fpga, and the
// platforms in OPAE's configuration), by vendor and device, or by the subsystem.
var (
	models = map[[2]uint16]string{
		{vendorIntel, 0x09c4}: "Intel PAC Arria 10 GX",
		{vendorIntel, 0x09c5}: "Intel PAC Arria 10 GX",
		{vendorIntel, 0x0b2b}: "Intel FPGA PAC D5005",
		{vendorIntel, 0x0b2c}: "Intel FPGA PAC D5005",
		{vendorIntel, 0x0b30}: "Intel FPGA PAC N3000",
		{vendorIntel, 0x0b31}: "Intel FPGA PAC N3000",
		{vendorIntel, 0xaf00}: "Intel Open FPGA Stack",
		{vendorIntel, 0xaf01}: "Intel Open FPGA Stack",
		{vendorIntel, 0xbcbd}: "Intel Xeon with integrated FPGA",
		{vendorIntel, 0xbcbf}: "Intel Xeon with integrated FPGA",
		{vendorIntel, 0xbcc0}: "Intel Xeon with integrated FPGA",
		{vendorIntel, 0xbcc1}: "Intel Xeon with integrated FPGA",
		{0x1c2c, 0x1000}:      "Silicom FPGA SmartNIC N5010",
		{0x1c2c, 0x1001}:      "Silicom FPGA SmartNIC N5011",
	}
	subsystems = map[uint16]string{
		0x138d: "Intel FPGA PAC D5005",
		0x1770: "Intel FPGA SmartNIC N6000",
		0x1771: "Intel FPGA SmartNIC N6001",
		0x17d4: "Intel IPU Platform F2000X (C6100)",
	}
)

// ModelOf returns the usual name of a card that the drivers support, by its PCI IDs without
// the subsystem; "" for other devices.
func ModelOf(d pci.Device) string {
	if d.Vendor == vendorIntel && (d.ID == deviceDFL || d.ID == deviceDFLVF) {
		return "Intel Open FPGA Stack"
	}
	return models[[2]uint16{d.Vendor, d.ID}]
}

// Model returns what people call the card, by its PCI IDs: "Intel FPGA PAC D5005", or "Intel
// FPGA 8086:0b2b" for one that is not known. A virtual function is called as its card.
func (c Card) Model() string {
	if c.PCI.Vendor == vendorIntel && (c.PCI.ID == deviceDFL || c.PCI.ID == deviceDFLVF) {
		if name := subsystems[c.Subsystem]; name != "" {
			return name
		}
	}
	if name := ModelOf(c.PCI); name != "" {
		return name
	}
	maker := ""
	if c.PCI.Vendor == vendorIntel {
		maker = "Intel "
	}
	return fmt.Sprintf("%sFPGA %04x:%04x", maker, c.PCI.Vendor, c.PCI.ID)
}
