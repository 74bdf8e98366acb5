package intel

import (
	"bytes"
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/test/fpgadevice"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// rig is a driver of a family on a machine, with a kernel behind the nodes.
type rig struct {
	tree   *fpgatree.Tree
	device *fpgadevice.Device
	*Driver
}

func newRig(t *testing.T, m fpgatree.Machine, family Family) rig {
	t.Helper()
	tree := fpgatest.Tree(t, m)
	device := fpgadevice.New(t, tree)
	d := NewDriver(sdk.HostPaths{Sysfs: tree.Sysfs(), Devfs: tree.Devfs()}, family, device.Open)
	d.write = device.Write
	return rig{tree, device, d}
}

// crypto is the ID of an accelerator function that no machine has at first.
const crypto = "38d782e3b6125343b934243307530a83"

// file returns a .gbs for an interface, which the device accepts.
func (r rig) file(t *testing.T, interfaceID, afu string) (*bitstream.File, []byte) {
	t.Helper()
	b := fpgadevice.Bitstream{Interface: interfaceID, AFU: afu, Payload: bytes.Repeat([]byte(interfaceID[:7]+afu[:6]), 5000)}
	r.device.Know(b)
	return fpgatest.Bitstream(t, "crypto.gbs", b.GBS()), b.Payload
}
