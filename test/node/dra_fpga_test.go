package node

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/accelmux/accelmux/test/fpgadevice"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// Verifies that a claim for an accelerator function is allocated from what the bitstreams of the node fit; that its
// pod gets the driver's word when the function cannot be programmed, as it cannot here: the nodes of the tree are files,
// which have no driver; and that nothing is left behind. Programming itself is tested in test/agent.
func TestFPGAFunctionThatCannotBeProgrammed(t *testing.T) {
	n := begin(t)
	dir := filepath.Join(playDir, "fpga")
	n.Cleanup(func() { n.must("rm", "-rf", dir) })
	if err := os.MkdirAll(filepath.Join(dir, "bitstreams"), 0o755); err != nil {
		t.Fatal(err)
	}
	tree, err := fpgatree.Write(dir, fpgatree.NewD5005())
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.OpenNodes(); err != nil {
		t.Fatal(err)
	}
	function := fpgadevice.Bitstream{Interface: fpgatree.NewD5005().Cards[0].Interface, AFU: "d8424dc4a4a3c413f89e433683f9040b", Payload: []byte("x")}
	if err := os.WriteFile(filepath.Join(dir, "bitstreams", "loopback.gbs"), function.GBS(), 0o600); err != nil {
		t.Fatal(err)
	}
	n.installExample("dra-fpga", func(example values, profiles []map[string]any) {
		delete(example, "extraVolumes") // those of the tests have the tree
		mountInBackend(example, "fpga", values{"name": "play", "mountPath": playDir})
		profiles[0]["backends"].([]any)[0].(map[string]any)["settings"].(map[string]any)["bitstreams"] = filepath.Join(dir, "bitstreams")
	})
	n.readTreeFrom(dir)
	n.eventually("the function is published, and pods wait for it", func() bool {
		published, err := publishedBy(context.Background(), "fpga.accelmux.io")
		for _, device := range published {
			return err == nil && len(published) == 1 && len(device.BindingConditions) > 0
		}
		return false
	})
	n.apply("functions")
	n.wantPodEvent("functions", "FailedScheduling", "inappropriate ioctl for device")
	n.wantMade()
	n.delete("functions")
	n.wantNoRecord()
}
