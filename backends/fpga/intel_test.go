package fpga

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/backends/fpga/intel"
	"github.com/accelmux/accelmux/backends/uevent/ueventtest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/fpgadevice"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// intelRig is the backend with the driver of Intel's cards on a machine, with the device
// behind the nodes, which accepts the files a.gbs and b.gbs. They fit the first card.
type intelRig struct {
	*rig
	tree   *fpgatree.Tree
	device *fpgadevice.Device
	// interfaceID is that of the first card.
	interfaceID string
}

func newIntelRig(t *testing.T, settings string) *intelRig {
	t.Helper()
	m := fpgatree.NewMixed() // with a virtual function in which nothing is loaded
	tree := fpgatest.Tree(t, m)
	r := &intelRig{
		rig: &rig{
			t: t, root: tree.Root, kernel: &ueventtest.Kernel{},
		},
		tree: tree, device: fpgadevice.New(t, tree), interfaceID: m.Cards[0].Interface,
	}
	for name, function := range map[string]string{"a.gbs": functionA, "b.gbs": functionB} {
		file := fpgadevice.Bitstream{Interface: r.interfaceID, AFU: function, Payload: []byte("payload of " + function)}
		r.device.Know(file)
		r.file(string(file.GBS()), r.root, "bitstreams", name)
	}
	r.backend = newBackend(slog.New(slog.DiscardHandler), seams{uevents: r.kernel.Listen, drivers: func(cfg *config) []driver.Driver {
		return []driver.Driver{intel.NewDriver(cfg.host, intel.DFL, r.device.Open)}
	}})
	r.watch(settings)
	r.inventory("all ports", healthy(7))
	return r
}

// programmed fails the test unless the card was programmed that many times.
func (r *intelRig) programmed(what string, want int) {
	r.t.Helper()
	if got := len(r.device.Calls(fpgadevice.Program)); got != want {
		r.t.Errorf("%s: programmed %d times, want %d", what, got, want)
	}
}

// Through the driver of Intel's cards, with the device behind the nodes: a container's file is
// programmed once, and its function is listed. An error of the card fails the start, and the
// file is programmed again although the port still reports the old function.
func TestIntelDevice(t *testing.T) {
	r := newIntelRig(t, programming)
	const id = "fpga-0001-05-00-1-port-0"
	r.do(r.prepare("a.gbs", nil, id))
	r.do(r.prepare("a.gbs", nil, id))
	r.do(r.prepare("a.gbs", []string{id}, id))
	r.programmed("the same file", 1)
	r.says("shared", r.prepare("b.gbs", []string{id}, id), "b.gbs was not programmed", "uses it with a.gbs")
	r.programmed("refused", 1)
	r.do(r.prepare("b.gbs", nil, id))
	r.programmed("the other file", 2)
	has := func(inv *backendv1.Inventory) bool {
		for _, d := range inv.GetDevices() {
			if d.GetId() == id {
				return text(d, "functionID") == functionB && healthy(7)(inv)
			}
		}
		return false
	}
	if !has(r.Last) {
		r.inventory("its function", has)
	}
	r.device.Next(fpgadevice.Answer{Errno: unix.EIO, Faults: 2})
	b, err := os.ReadFile(filepath.Join(r.root, "bitstreams/b.gbs"))
	r.do(err)
	r.file(string(b), r.root, "bitstreams/b.gbs") // built again
	r.says("a file that the card finds faulty", r.prepare("b.gbs", nil, id), id, "faulty")
	r.programmed("faulty", 3)
	r.says("no file", r.prepare("", nil, id), "the content of region 0 of the card fpga-0001-05-00-1 is not known", "faulty")
	r.do(r.prepare("b.gbs", nil, id)) // which it still shows
	r.programmed("again", 4)
}
