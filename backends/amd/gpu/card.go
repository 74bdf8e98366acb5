package gpu

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// vendor is AMD's PCI ID of GPUs.
const vendor = 0x1002

// whole is the compute mode in which a card is one GPU.
const whole = "SPX"

// splits is how many partitions a card has in a compute mode; those of CPX depend on
// the card, and are at most 8 (amdgpu's MAX_XCP).
var splits = map[string]int{whole: 1, "DPX": 2, "TPX": 3, "QPX": 4, "CPX": 8}

// memoryModes are those that the driver has (amdgpu_gmc.h).
var memoryModes = []string{"NPS1", "NPS2", "NPS3", "NPS4", "NPS6", "NPS8"}

// card is what the PCI function reports.
type card struct {
	at pci.Device
	// revision is that of the PCI device; nil if it is not known.
	revision *uint8
	// uniqueID is 0 if the card has none; noUniqueID: the kernel has no file for it.
	uniqueID                  uint64
	noUniqueID                bool
	compute, memory           string
	computeModes, memoryModes []string
	product                   string
	vram                      uint64
	firmware                  map[string]uint32
	notes                     []error // problems with which the card is listed
}

// readCard reads a card; it fails if its identity or its partition mode cannot be read. The
// driver refuses some files during a reset, which must not give the card another ID.
func readCard(root string, at pci.Address) (card, error) {
	device, err := pci.ReadDevice(root, at)
	if err != nil {
		return card{}, err
	}
	if device.Vendor != vendor {
		return card{}, fmt.Errorf("PCI vendor is %#04x, want AMD's %#04x", device.Vendor, vendor)
	}
	c := card{at: device}
	dir := filepath.Join(root, "bus", "pci", "devices", at.String())
	if err := c.readUniqueID(filepath.Join(dir, "unique_id")); err != nil {
		return card{}, err
	}
	if err := c.readModes(dir); err != nil {
		return card{}, err
	}
	if text := c.optional(dir, "revision"); text != "" {
		n, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 8)
		if err != nil {
			c.notes = append(c.notes, fmt.Errorf("%s is %s, want a hexadecimal number of 8 bits", filepath.Join(dir, "revision"), sysfs.Quote(text)))
		} else {
			c.revision = new(uint8(n))
		}
	}
	c.product = printable(c.optional(dir, "product_name"))
	if text := c.optional(dir, "mem_info_vram_total"); text != "" {
		n, err := sysfs.ParseUint(text)
		if err != nil || n > 1<<60 {
			c.notes = append(c.notes, fmt.Errorf("%s is %s, which is not a size", filepath.Join(dir, "mem_info_vram_total"), sysfs.Quote(text)))
			n = 0
		}
		c.vram = n
	}
	c.readFirmware(filepath.Join(dir, "fw_version"))
	return c, nil
}

// firmwares are the kinds of firmware that AMD's node labeller publishes.
var firmwares = []string{"vce", "uvd", "mc", "me", "pfp", "ce", "rlc", "mec", "smc", "sdma"}

// readFirmware reads versions of firmware: 0x and 8 hexadecimal digits (FW_VERSION_ATTR in
// drivers/gpu/drm/amd/amdgpu/amdgpu_ucode.c), 0 for firmware that the card does not have. Old
// kernels have no such files.
func (c *card) readFirmware(dir string) {
	if _, err := os.Stat(dir); err != nil {
		return
	}
	c.firmware = map[string]uint32{}
	for _, name := range firmwares {
		text := c.optional(dir, name+"_fw_version")
		if n, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 32); err == nil && n != 0 {
			c.firmware[name] = uint32(n)
		}
	}
}

// optional returns the content of a file that not all cards have; empty if there is none.
func (c *card) optional(dir, name string) string {
	text, err := sysfs.Text(filepath.Join(dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.notes = append(c.notes, err)
	}
	return text
}

// readUniqueID reads unique_id: 16 hexadecimal digits, or nothing for a card that has
// no such number (amdgpu_get_unique_id in drivers/gpu/drm/amd/pm/amdgpu_pm.c).
func (c *card) readUniqueID(file string) error {
	text, err := sysfs.Text(file)
	if errors.Is(err, fs.ErrNotExist) {
		c.noUniqueID = true
		return nil
	}
	if err != nil || text == "" {
		return err
	}
	n, err := strconv.ParseUint(text, 16, 64)
	if err != nil || len(text) != 16 || n == math.MaxUint64 {
		return fmt.Errorf("%s is %s, want 16 hexadecimal digits, not all f", file, sysfs.Quote(text))
	}
	c.uniqueID = n
	return nil
}

// readModes reads the partition modes. A compute mode that is not known, as during a
// switch, leaves the card out: its ID depends on it.
func (c *card) readModes(dir string) error {
	file := filepath.Join(dir, "current_compute_partition")
	text, err := sysfs.Text(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if strings.EqualFold(text, "Not supported") {
		return nil
	}
	if splits[text] == 0 {
		return fmt.Errorf("%s is %s, want SPX, DPX, TPX, QPX or CPX", file, sysfs.Quote(text))
	}
	c.compute = text
	c.memory = c.optional(dir, "current_memory_partition")
	if c.memory != "" && !slices.Contains(memoryModes, c.memory) {
		c.notes = append(c.notes, fmt.Errorf("%s is %s, want one of %s", filepath.Join(dir, "current_memory_partition"),
			sysfs.Quote(c.memory), strings.Join(memoryModes, ", ")))
		c.memory = ""
	}
	c.computeModes = modes(c.optional(dir, "available_compute_partition"), func(m string) bool { return splits[m] > 0 })
	c.memoryModes = modes(c.optional(dir, "available_memory_partition"), func(m string) bool { return slices.Contains(memoryModes, m) })
	return nil
}

// modes returns the known ones of a list such as "SPX, DPX, QPX, CPX".
func modes(text string, known func(string) bool) []string {
	var all []string
	for m := range strings.SplitSeq(text, ",") {
		if m = strings.TrimSpace(m); known(m) && !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	return all
}

// printable returns text for users; empty if it is not printable.
func printable(text string) string {
	if len(text) > 128 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return ""
	}
	return text
}
