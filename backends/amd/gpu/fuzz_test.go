package gpu

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/amdtree"
)

// With any content of its files a card is left out, or is valid and keeps the ID of its file.
func FuzzCard(f *testing.F) {
	f.Add("f000000000000001\n", "CPX\n", "NPS4\n", "SPX, DPX, CPX\n", "0x02\n", "206158430208\n", "AMD Instinct MI300X\n")
	f.Add("", "Not supported\n", "", "", "", "", "")
	f.Add("ffffffffffffffff\n", "UNKNOWN\n", "NPS5\n", ",,SPX,SPX", "0x1ff\n", "18446744073709551616\n", "\x1b[31m")
	f.Add("1\n", "Not supported\n", "", "", "", "", "")
	f.Add("F00000000000000A", "SPX", "NPS1\x00", "\xff", "-1", "-1", "\x00")
	m := amdtree.NewMI210()
	m.GPUs = m.GPUs[:1]
	tree, at := amdtree.New(f, m), m.GPUs[0].Address
	dir := filepath.Join(tree.Sysfs(), "bus/pci/devices", at.String())
	f.Fuzz(func(t *testing.T, uniqueID, compute, memory, available, revision, size, name string) {
		for file, text := range map[string]string{
			"unique_id": uniqueID, "current_compute_partition": compute, "current_memory_partition": memory,
			"available_compute_partition": available, "revision": revision, "mem_info_vram_total": size, "product_name": name,
		} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c, err := readCard(tree.Sysfs(), at)
		if err != nil {
			return
		}
		if said := fmt.Sprintf("%016x", c.uniqueID); c.uniqueID != 0 && !strings.HasPrefix(strings.ToLower(strings.TrimSpace(uniqueID)), said) {
			t.Errorf("unique_id %q is taken for %q", uniqueID, said)
		}
		if c.compute != "" && splits[c.compute] == 0 || c.memory != "" && !slices.Contains(memoryModes, c.memory) {
			t.Errorf("modes %q and %q", c.compute, c.memory)
		}
		for _, mode := range c.computeModes {
			if splits[mode] == 0 {
				t.Errorf("available modes %q", c.computeModes)
			}
		}
		if printable(c.product) != c.product || c.vram > 1<<60 {
			t.Errorf("product %q, %d bytes", c.product, c.vram)
		}
	})
}
