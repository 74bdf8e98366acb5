package alveo

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// board is the ID of the board of fpgatree.NewU30.
const board = "fpga-21770205K01Y"

// A U30 is one card with the nodes of both FPGAs, and its ID stays while one of them is
// missing or in reset.
func TestBoards(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewU30())
	d := NewBoards(newDriver(tree, Settings{}))
	only := func() (driver.Card, driver.Region) {
		t.Helper()
		r := d.Read()
		if len(r.Cards) != 1 || len(r.Problems) > 0 || len(r.Cards[0].Regions) != 1 || r.Cards[0].ID != board || r.Cards[0].Regions[0].ID != RegionID(board) {
			t.Fatalf("%+v", r)
		}
		return r.Cards[0], r.Cards[0].Regions[0]
	}
	card, region := only()
	if !slices.Equal(region.Nodes, []string{"/dev/dri/renderD128", "/dev/dri/renderD129"}) || len(card.Management) != 2 || region.State != driver.Unloaded ||
		region.Name != "xilinx_u30_gen3x4_base_2-0" || card.Attributes["commonName"].GetStringValue() != "ama_u30" || len(card.Faults) > 0 {
		t.Errorf("%+v", card)
	}
	labels := map[string]bool{}
	for _, c := range card.Counts {
		if key := c.Name + c.Label; labels[key] || !strings.HasPrefix(c.Label, "0000:6") {
			t.Errorf("count %+v", c)
		} else {
			labels[key] = true
		}
	}
	sensors := map[string]bool{}
	for _, s := range d.Sense(card).Sensors {
		sensors[s.Sensor] = true
	}
	if !sensors["0000:65:00.1 xmc_fpga_temp"] || !sensors["0000:66:00.1 xmc_fpga_temp"] {
		t.Errorf("sensors %v", sensors)
	}

	fpgatest.OK(t, tree.LoadXclbin(1, loaded))
	if _, r := only(); r.State != driver.Unloaded || r.Function != "" {
		t.Errorf("with a file in one FPGA: %+v", r)
	}
	fpgatest.OK(t, tree.LoadXclbin(0, loaded))
	if _, r := only(); r.State != driver.Loaded || r.Function != loaded {
		t.Errorf("with the file in both: %+v", r)
	}
	fpgatest.OK(t, tree.BeginReset(1))
	if _, r := only(); r.State != driver.Busy {
		t.Errorf("in the reset of one: %+v", r)
	}
	fpgatest.OK(t, tree.UnplugAlveo(0))
	if c, r := only(); r.State != driver.Busy || len(r.Nodes) != 1 || !slices.ContainsFunc(c.Faults, func(f driver.Fault) bool {
		return f.Code == BoardIncomplete && strings.HasPrefix(f.Text, "1 of the board's 2 FPGAs are missing")
	}) {
		t.Errorf("without one: %+v", c)
	}
}

// A reset is one of each FPGA.
func TestBoardsReset(t *testing.T) {
	m := fpgatree.NewU30()
	m.Alveos[0].Xclbin, m.Alveos[1].Xclbin = loaded, loaded
	tree := fpgatest.Tree(t, m)
	d := NewBoards(withoutTool(t, tree))
	c := d.Read().Cards[0]
	done, err := d.Reset(t.Context(), c, c.Regions[0])
	if err != nil || strings.Count(done, "hot reset of 0000:6") != 2 {
		t.Errorf("%q, %v", done, err)
	}
	if r := d.Read().Cards[0].Regions[0]; r.State != driver.Unloaded {
		t.Errorf("%+v", r)
	}
}

// A file is put into each FPGA. If one of them fails, the others were changed, and the
// error is not the one for an untouched region.
func TestBoardsProgram(t *testing.T) {
	m := fpgatree.NewU30()
	tree := fpgatest.Tree(t, m)
	f := open(t, fpgatree.Xclbin{VBNV: fpgatree.U30.VBNV, UUID: other, Interfaces: fpgatree.U30.Interfaces})
	d := NewBoards(xbutil(t, tree, programs))
	c := d.Read().Cards[0]
	fpgatest.OK(t, d.Fits(c, c.Regions[0], f))
	fpgatest.OK(t, d.Program(t.Context(), c, c.Regions[0], f))
	if r := d.Read().Cards[0].Regions[0]; !d.Holds(r, f) {
		t.Errorf("%+v", r)
	}
	fpgatest.OK(t, tree.LoadXclbin(0, ""))
	fpgatest.OK(t, tree.BeginReset(1))
	err := d.Program(t.Context(), c, c.Regions[0], f)
	if err == nil || !strings.Contains(err.Error(), "1 of the 2 FPGAs of board "+board) || errors.As(err, &driver.UntouchedError{}) {
		t.Errorf("%v", err)
	}
}
