package gpu

import (
	"cmp"
	_ "embed" // amdgpu.ids
	"maps"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/sysfs"
)

// shipped is libdrm's list of marketing names; amdgpu.ids.LICENSE has its version.
//
//go:embed amdgpu.ids
var shipped string

// Names are product names of PCI devices, from the copy of libdrm's list in this program
// and from lists on the machine. A Names does not change and is safe for concurrent use. A
// nil Names is empty.
type Names struct {
	marketing map[marketed]string
	devices   map[uint16]string
}

type marketed struct {
	device   uint16
	revision uint8
}

// listLimit bounds a list of names; the PCI ID list has 1.5 MiB.
const listLimit = 8 << 20

// LoadNames returns the names in this program's copy of libdrm's amdgpu.ids. For devices
// that it lacks, lists below a root directory, usually /, are read: a newer
// usr/share/libdrm/amdgpu.ids, then the PCI ID list, usr/share/hwdata/pci.ids or
// usr/share/misc/pci.ids. So a card has the same name on all nodes with the same version of
// this program. A list that is missing or invalid is skipped.
func LoadNames(root string) *Names {
	n := &Names{marketing: map[marketed]string{}}
	share := filepath.Join(root, "usr", "share")
	if text, err := sysfs.Read(filepath.Join(share, "libdrm", "amdgpu.ids"), listLimit); err == nil {
		n.marketing = parseMarketing(string(text))
	}
	maps.Copy(n.marketing, parseMarketing(shipped))
	for _, dir := range []string{"hwdata", "misc"} {
		if text, err := sysfs.Read(filepath.Join(share, dir, "pci.ids"), listLimit); err == nil && len(n.devices) == 0 {
			n.devices = parsePCI(string(text))
		}
	}
	return n
}

// of returns the name of a device; empty if it is in no list. A revision that is not known (nil) is not 00, which may
// be another model.
func (n *Names) of(device uint16, revision *uint8) string {
	switch {
	case n == nil:
		return ""
	case revision == nil:
		return cmp.Or(n.ofAllRevisions(device), n.devices[device])
	}
	return cmp.Or(n.marketing[marketed{device, *revision}], n.devices[device])
}

// ofAllRevisions returns the marketing name that all revisions of a device have; empty if they differ.
func (n *Names) ofAllRevisions(device uint16) (name string) {
	for of, other := range n.marketing {
		switch {
		case of.device != device:
		case name != "" && name != other:
			return ""
		default:
			name = other
		}
	}
	return name
}

// parseMarketing reads lines "device, revision, name", both numbers in hexadecimal.
func parseMarketing(text string) map[marketed]string {
	names := map[marketed]string{}
	for line := range strings.Lines(text) {
		fields := strings.SplitN(line, ",", 3)
		if len(fields) != 3 {
			continue
		}
		device, err := strconv.ParseUint(strings.TrimSpace(fields[0]), 16, 16)
		if err != nil {
			continue
		}
		revision, err := strconv.ParseUint(strings.TrimSpace(fields[1]), 16, 8)
		if name := printable(strings.TrimSpace(fields[2])); err == nil && name != "" {
			names[marketed{uint16(device), uint8(revision)}] = strings.Clone(name)
		}
	}
	return names
}

// parsePCI reads the devices of AMD's in the PCI ID list: a line "1002  AMD …", then
// lines with a tab, a number and the chip with the product in brackets.
func parsePCI(text string) map[uint16]string {
	names, ours := map[uint16]string{}, false
	for line := range strings.Lines(text) {
		switch {
		case line[0] != '\t':
			ours = strings.HasPrefix(line, "1002 ") || (ours && (line[0] == '#' || line[0] == '\n'))
		case ours && !strings.HasPrefix(line, "\t\t"):
			number, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			device, err := strconv.ParseUint(number, 16, 16)
			if name = product(strings.TrimSpace(name)); err == nil && name != "" {
				names[uint16(device)] = strings.Clone(name)
			}
		}
	}
	return names
}

// product returns a name of the PCI ID list, such as "Aldebaran/MI200 [Instinct MI210]", as
// the marketing list has it: "AMD Instinct MI210".
func product(name string) string {
	if open, end := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']'); open >= 0 && end > open+1 {
		name = name[open+1 : end]
	}
	if name = printable(name); name == "" || strings.HasPrefix(name, "AMD ") {
		return name
	}
	return "AMD " + name
}

// model is what is known of a device that has no name from elsewhere.
type model struct {
	name, gfx string
	// xccs is the number of compute dies, which is that of partitions in CPX; 0 for a
	// card without partitions.
	xccs int
}

// models are the Instinct cards by PCI device, for revisions and properties that no list
// has. Names are those of libdrm's list (data/amdgpu.ids) and of the PCI ID list; versions
// and dies are from the driver's table (amdgpu_drv.c, aqua_vanjaram.c) and AMD's data
// sheets. VF is a virtual function.
var models = map[uint16]model{
	0x6860: {"AMD Radeon Instinct MI25", "gfx900", 0},
	0x6864: {"AMD Radeon Pro V340 / Instinct MI25x2", "gfx900", 0},
	0x686c: {"AMD Radeon Instinct MI25 MxGPU", "gfx900", 0},
	0x66a0: {"AMD Instinct MI60 / MI50", "gfx906", 0},
	0x66a1: {"AMD Instinct MI60 / MI50", "gfx906", 0},
	0x738c: {"AMD Instinct MI100", "gfx908", 0},
	0x7408: {"AMD Instinct MI250X", "gfx90a", 0},
	0x740c: {"AMD Instinct MI250X / MI250", "gfx90a", 0},
	0x740f: {"AMD Instinct MI210", "gfx90a", 0},
	0x74a0: {"AMD Instinct MI300A", "gfx942", 6},
	0x74a1: {"AMD Instinct MI300X", "gfx942", 8},
	0x74a2: {"AMD Instinct MI308X", "gfx942", 4},
	0x74a5: {"AMD Instinct MI325X", "gfx942", 8},
	0x74a8: {"AMD Instinct MI308X HF", "gfx942", 4},
	0x74a9: {"AMD Instinct MI300X HF", "gfx942", 8},
	0x74b5: {"AMD Instinct MI300X VF", "gfx942", 8},
	0x74b6: {"AMD Instinct MI308X VF", "gfx942", 4},
	0x74b9: {"AMD Instinct MI325X VF", "gfx942", 8},
	0x74bc: {"AMD Instinct MI308X HF VF", "gfx942", 4},
	0x74bd: {"AMD Instinct MI300X HF VF", "gfx942", 8},
	0x75a0: {"AMD Instinct MI350X", "gfx950", 8},
	0x75a3: {"AMD Instinct MI355X", "gfx950", 8},
	0x75b0: {"AMD Instinct MI350X VF", "gfx950", 8},
	0x75b3: {"AMD Instinct MI355X VF", "gfx950", 8},
}

// family returns the architecture of an instruction set, as LLVM's list of AMD's processors
// has it; empty for one that we do not know.
func family(gfx string) string {
	for _, f := range []struct{ prefix, name string }{
		{"gfx900", "Vega"}, {"gfx902", "Vega"}, {"gfx904", "Vega"}, {"gfx906", "Vega"}, {"gfx90c", "Vega"},
		{"gfx908", "CDNA"}, {"gfx90a", "CDNA2"}, {"gfx94", "CDNA3"}, {"gfx950", "CDNA4"},
		{"gfx101", "RDNA"}, {"gfx103", "RDNA2"}, {"gfx110", "RDNA3"}, {"gfx115", "RDNA3.5"}, {"gfx120", "RDNA4"},
	} {
		if strings.HasPrefix(gfx, f.prefix) {
			return f.name
		}
	}
	return ""
}
