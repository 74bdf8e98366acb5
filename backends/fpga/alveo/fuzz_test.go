package alveo

import (
	"path/filepath"
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/backends/sysfs"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// FuzzFile gives files of a card any content: IDs and names stay valid.
func FuzzFile(f *testing.F) {
	files := []string{"VBNV", "timestamp", "serial_num", "xclbinuuid", "interface_uuids", "logic_uuids", "ready", "shutdown", "instance", "status", "board_name"}
	for i, text := range []string{"xilinx_u250_gen3x16_xdma_shell_4_1\n", "1561465320\n", "21770205K01Y\n", loaded + "\n" + other, "f2b82d53372f45a4bbe9f3df2cb9d1c4\n", "", "0x1\n", "1\n", "4352\n", "524288", "u250"} {
		f.Add(uint8(i), []byte(text))
	}
	tree := fpgatest.Tree(f, fpgatree.NewAlveo(fpgatree.U250))
	f.Fuzz(func(t *testing.T, which uint8, content []byte) {
		file := files[int(which)%len(files)]
		i := read(tree.Sysfs(), func(path string, limit int) ([]byte, error) {
			if filepath.Base(path) == file {
				return content[:min(len(content), limit)], nil
			}
			return sysfs.Read(path, limit)
		}, func() {})
		d := newDriver(tree, Settings{})
		for n, id := range d.identify(i) {
			if id.err != nil {
				continue
			}
			c := d.card(i.Cards[n], id, false)
			if len(c.ID) > 48 || len(c.Board) > 48 {
				t.Errorf("its ID is %q, its board %q", c.ID, c.Board)
			}
			checkName(t, c.ID)
			for _, g := range c.Regions {
				checkName(t, g.Name)
				checkName(t, g.ID)
			}
			for _, fault := range c.Faults {
				if len(fault.Text) > 1000 {
					t.Errorf("the fault %s is %d bytes", fault.Code, len(fault.Text))
				}
			}
		}
	})
}
