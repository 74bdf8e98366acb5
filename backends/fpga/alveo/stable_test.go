package alveo

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/backends/sysfs"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// A machine that changes once while it is read is read again; one that never stops changing is
// reported as unstable.
func TestTorn(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewAlveo(fpgatree.U250))
	passes := 0
	i := read(tree.Sysfs(), sysfs.Read, func() {
		if passes++; passes == 1 {
			fpgatest.OK(t, tree.BeginReset(0))
		}
	})
	if i.Unstable || len(i.Cards) != 1 || i.Cards[0].Offline() == "" {
		t.Errorf("after %d passes it is %+v", passes, i)
	}
	fpgatest.OK(t, tree.EndReset(0))
	passes = 0
	i = read(tree.Sysfs(), sysfs.Read, func() {
		if passes++; passes%2 == 0 {
			fpgatest.OK(t, tree.SetAlveo(0, fpgatree.User, "ready", []string{"0x1\n", "0x0\n"}[passes/2%2]))
		}
	})
	if !i.Unstable {
		t.Errorf("after %d changes it is %+v", passes/2, i)
	}
}

// A bus that cannot be listed is one without cards, but not the same.
func TestUnreadableBus(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewAlveo(fpgatree.U250))
	bus := filepath.Join(tree.Sysfs(), "bus/pci/devices")
	fpgatest.OK(t, os.RemoveAll(bus))
	if i := Read(tree.Sysfs()); len(i.Cards)+len(i.Problems) > 0 {
		t.Errorf("without a PCI bus it is %+v", i)
	}
	fpgatest.OK(t, os.WriteFile(bus, nil, 0o600))
	if i := Read(tree.Sysfs()); len(i.Cards) > 0 || i.Unloaded || len(i.Problems) != 1 || !i.Problems[0].Lost {
		t.Errorf("when the bus cannot be listed it is %+v", i)
	}
}
