package fpga

import (
	"path/filepath"
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// A chip of an MA35D is a card of the platform MA35, and its container gets its node. Without
// its driver the problem names that.
func TestMA35D(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewD5005())
	r := &rig{t: t}
	function := filepath.Join(tree.Sysfs(), "bus/pci/devices/0000:21:00.0")
	for name, text := range map[string]string{"vendor": "0x10ee\n", "device": "0x5070\n", "class": "0x120000\n"} {
		r.file(text, function, name)
	}
	r = onTree(t, tree, `{"health": {"interval": "1s"}}`)
	says(t, r, 1, "an AMD Alveo MA35D at 0000:21:00.0): load ama_transcoder")

	chip := filepath.Join(tree.Sysfs(), "class/misc/ama_transcoder0")
	r.file("", function, "driver")
	r.file("", r.root, "dev/ama_transcoder0")
	r.file("0000:21:00.0\n", chip, "bus_id")
	inv := r.inventory("the chip", func(inv *backendv1.Inventory) bool { return healthy(2)(inv) && len(inv.GetProblems()) == 0 })
	d := device(inv, "ama-0000-21-00-0")
	if d.GetClass() != classCard || text(d, "platformName") != "MA35" || text(d, "driver") != "ama" || d.GetParentId() != "" ||
		d.GetEdits().GetDeviceNodes()[0].GetPath() != "/dev/ama_transcoder0" {
		t.Errorf("%v", d)
	}
}
