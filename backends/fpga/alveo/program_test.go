package alveo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/test/fpgatree"
)

const other = "11111111-2222-3333-4444-555555555555"

// u250 returns an xclbin for the card that tests have.
func u250() fpgatree.Xclbin {
	return fpgatree.Xclbin{VBNV: fpgatree.U250.VBNV, UUID: other, Interfaces: fpgatree.U250.Interfaces}
}

// open returns an xclbin as a file.
func open(t testing.TB, x fpgatree.Xclbin) *bitstream.File {
	t.Helper()
	return fpgatest.Bitstream(t, "kernel.xclbin", x.Bytes())
}

// programs is a script that loads the UUID of the file that it is given, as the tool's
// scripts do by a program that they start.
const programs = `[ "$1 $2 $4" = "program --device --user" ] || { echo "called as $*"; exit 9; }
u=$(dd if="$5" bs=1 skip=416 count=16 2>/dev/null | od -An -tx1 | tr -d ' \n')
echo "$u" | sed 's/\(........\)\(....\)\(....\)\(....\)\(.*\)/\1-\2-\3-\4-\5/' > "$SYS/bus/pci/devices/$3/xclbinuuid"
echo "INFO: xbutil program succeeded."`

// xbutil makes a stand-in for XRT's tool, and a driver that uses it.
func xbutil(t *testing.T, tree *fpgatree.Tree, body string) *Driver {
	t.Helper()
	path := filepath.Join(t.TempDir(), "xbutil")
	script := fmt.Sprintf("#!/bin/sh\nSYS=%s\n%s\n", tree.Sysfs(), body)
	fpgatest.OK(t, os.WriteFile(path, []byte(script), 0o700)) //nolint:gosec // it is a program
	return newDriver(tree, Settings{Tool: path})
}

// A file is for a card if its interfaces are the shell's or, without any, its name and
// time.
func TestFits(t *testing.T) {
	const wrong = "0123456789abcdef0123456789abcdef"
	for name, c := range map[string]struct {
		model fpgatree.AlveoModel
		file  fpgatree.Xclbin
		want  string
	}{
		"interface":         {fpgatree.U250, u250(), ""},
		"another version":   {fpgatree.U250, fpgatree.Xclbin{VBNV: "xilinx_u250_other", UUID: other, Interfaces: fpgatree.U250.Interfaces}, ""},
		"another interface": {fpgatree.U250, fpgatree.Xclbin{VBNV: fpgatree.U250.VBNV, UUID: other, Interfaces: []string{wrong}}, "it needs the interface 01234567-89ab-cdef-0123-456789abcdef, and the shell xilinx_u250_gen3x16_xdma_shell_4_1 has f2b82d53372f45a4bbe9f3df2cb9d1c4"},
		"one of two":        {fpgatree.U250, fpgatree.Xclbin{VBNV: fpgatree.U250.VBNV, UUID: other, Interfaces: []string{fpgatree.U250.Interfaces[0], wrong}}, "it needs the interface 01234567"},
		"no interface":      {fpgatree.U200, fpgatree.Xclbin{VBNV: fpgatree.U200.VBNV, UUID: other, Interfaces: []string{wrong}}, "has none"},
		"name and time":     {fpgatree.U200, fpgatree.Xclbin{VBNV: "xilinx:u200:xdma:201830.2", UUID: other, Time: fpgatree.U200.Timestamp}, ""},
		"another time":      {fpgatree.U200, fpgatree.Xclbin{VBNV: fpgatree.U200.VBNV, UUID: other, Time: 5}, "of time 5, and that of the card has 1561465320"},
		"another name":      {fpgatree.U200, fpgatree.Xclbin{VBNV: fpgatree.U280.VBNV, UUID: other, Time: fpgatree.U200.Timestamp}, "for the platform xilinx_u280_xdma_201920_3, and the card has xilinx_u200_xdma_201830_2"},
		"no name":           {fpgatree.U200, fpgatree.Xclbin{UUID: other}, "does not name the platform"},
		"AWS":               {fpgatree.F1, fpgatree.Xclbin{VBNV: fpgatree.F1.VBNV, UUID: other, Time: 77}, ""},
	} {
		d := newDriver(fpgatest.Tree(t, fpgatree.NewAlveo(c.model)), Settings{})
		card := one(t, d)
		err := d.Fits(card, card.Regions[0], open(t, c.file))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	tree := fpgatest.Tree(t, fpgatree.NewAlveo(fpgatree.U250))
	d := newDriver(tree, Settings{})
	card := one(t, d)
	if err := d.Fits(card, card.Regions[0], fpgatest.Bitstream(t, "raw.bin", make([]byte, 100))); err == nil || !strings.Contains(err.Error(), "it is raw, and an xclbin was expected") {
		t.Errorf("a raw file: %v", err)
	}
	fpgatest.OK(t, tree.BeginReset(0))
	fpgatest.OK(t, tree.SpoilAlveo(0, fpgatree.Management, "rom/VBNV", func(p string) error { return os.RemoveAll(filepath.Dir(p)) }))
	if err := d.Fits(card, card.Regions[0], open(t, u250())); err == nil || !strings.Contains(err.Error(), "does not report its shell, as in reset") {
		t.Errorf("in reset: %v", err)
	}
	fpgatest.OK(t, tree.UnplugAlveo(0))
	if err := d.Fits(card, card.Regions[0], open(t, u250())); err == nil || !strings.Contains(err.Error(), "is not there any more") {
		t.Errorf("unplugged: %v", err)
	}
}

// The tool gets the checked file, whatever happens to its name, and wherever it is.
func TestProgram(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewAlveo(fpgatree.U250))
	d := xbutil(t, tree, programs)
	card := one(t, d)
	if !card.Regions[0].Programmable {
		t.Error("it cannot be programmed")
	}
	f := open(t, u250())
	another := u250()
	another.UUID = loaded
	fpgatest.OK(t, os.WriteFile(f.Path+".new", another.Bytes(), 0o600))
	fpgatest.OK(t, os.Rename(f.Path+".new", f.Path))
	fpgatest.OK(t, d.Program(t.Context(), card, card.Regions[0], f))
	if r := one(t, d).Regions[0]; r.State != driver.Loaded || r.Function != other || !d.Holds(r, f) {
		t.Errorf("it has %+v", r)
	}
	fpgatest.OK(t, os.Remove(f.Path))
	fpgatest.OK(t, d.Program(t.Context(), card, card.Regions[0], f))
}

// Errors have the reason and the card's content afterwards.
func TestProgramFails(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"fails":    {`echo "ERROR: xclbin is locked by a process" >&2; exit 1`, "failed (exit status 1): ERROR: xclbin is locked by a process; the card has 6d3f2c1e-54a8-4c0e-9f0d-6f1f1f0a7b21 loaded now"},
		"killed":   {"kill -9 $$", "signal: killed"},
		"clears":   {`: > "$SYS/bus/pci/devices/$3/xclbinuuid"; exit 2`, "the card has nothing loaded now"},
		"resets":   {`echo 1 > "$SYS/bus/pci/devices/$3/dev_offline"; exit 2`, "does not report what it has"},
		"vanishes": {`rm -r "$SYS/bus/pci/devices/$3"; exit 2`, "the card does not report what it has loaded now"},
		"writes":   {programs + "\necho more >> $FILE", "it was changed since it was opened"},
		"lies":     {"exit 0", "the tool reported success, but the card has 6d3f2c1e-54a8-4c0e-9f0d-6f1f1f0a7b21 loaded now, and the file is " + other},
	} {
		t.Run(name, func(t *testing.T) {
			m := fpgatree.NewAlveo(fpgatree.U250)
			m.Alveos[0].Xclbin = loaded
			tree := fpgatest.Tree(t, m)
			f := open(t, u250())
			d := xbutil(t, tree, "FILE="+f.Path+"\n"+c.body)
			d.verified = 2e6
			card := one(t, d)
			err := d.Program(t.Context(), card, card.Regions[0], f)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), card.ID) || errors.As(err, &driver.UntouchedError{}) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// A card that cannot be programmed now is refused; the tool is not run.
func TestProgramRefused(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*fpgatree.Tree) error
		want string
	}{
		"reset":    {func(tree *fpgatree.Tree) error { return tree.BeginReset(0) }, "offline"},
		"shutdown": {func(tree *fpgatree.Tree) error { return tree.SetAlveo(0, fpgatree.User, "shutdown", "1\n") }, "shutdown)"},
		"ready":    {func(tree *fpgatree.Tree) error { return tree.SetAlveo(0, fpgatree.User, "ready", "0x0\n") }, "it is not ready"},
		"firewall": {func(tree *fpgatree.Tree) error { return tree.TripFirewall(0, 1, "ep_firewall_ctrl_user_00", 1<<19, 1) }, "is tripped"},
		"gone":     {func(tree *fpgatree.Tree) error { return tree.UnplugAlveo(0) }, "not there any more"},
		"half": {func(tree *fpgatree.Tree) error {
			return tree.SpoilAlveo(0, fpgatree.User, "drm", os.RemoveAll)
		}, "no user function here"},
	} {
		tree := fpgatest.Tree(t, fpgatree.NewAlveo(fpgatree.U250))
		d := xbutil(t, tree, "echo called; exit 1")
		card := one(t, d)
		fpgatest.OK(t, c.do(tree))
		err := d.Program(t.Context(), card, card.Regions[0], open(t, u250()))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "called") || !errors.As(err, &driver.UntouchedError{}) {
			t.Errorf("%s: %v, want %q, untouched", name, err, c.want)
		}
	}
	tree := fpgatest.Tree(t, fpgatree.NewAlveo(fpgatree.U250))
	d := newDriver(tree, Settings{Root: t.TempDir()})
	card := one(t, d)
	if card.Regions[0].Programmable {
		t.Error("it can be programmed without a tool")
	}
	err := d.Program(t.Context(), card, card.Regions[0], open(t, u250()))
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "needs XRT's tool") || !strings.Contains(err.Error(), "set xrt.tool") {
		t.Errorf("without a tool: %v", err)
	}
	fpgatest.OK(t, os.MkdirAll(filepath.Join(d.settings.Root, "usr/bin"), 0o750))
	fpgatest.OK(t, os.WriteFile(filepath.Join(d.settings.Root, "usr/bin/xbutil"), nil, 0o700)) //nolint:gosec // it is a program
	if err := d.Program(t.Context(), card, card.Regions[0], open(t, u250())); err == nil || !strings.Contains(err.Error(), "has no /proc of this process") {
		t.Errorf("without /proc: %v", err)
	}
}
