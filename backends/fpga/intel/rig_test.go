package intel

import (
	"bytes"
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
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

// newD5005 is a rig with a D5005, its card and its port.
func newD5005(t *testing.T) (rig, driver.Card, driver.Region) {
	t.Helper()
	r := newRig(t, fpgatree.NewD5005(), DFL)
	card, region := port(t, r.Driver, "fpga-0000-05-00-0-port-0")
	return r, card, region
}

// held makes a call whose request the card does not answer until meanwhile returns.
func held(queue func(...fpgadevice.Answer), call func() error, meanwhile func()) error {
	begun, hold := make(chan struct{}), make(chan struct{})
	queue(fpgadevice.Answer{Begun: begun, Hold: hold})
	result := make(chan error, 1)
	go func() { result <- call() }()
	<-begun
	meanwhile()
	close(hold)
	return <-result
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
