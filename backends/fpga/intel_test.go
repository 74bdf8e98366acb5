package fpga

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/intel"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/uevent/ueventtest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/fpgadevice"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/sysroot"
)

// intelRig is the backend with the driver of Intel's cards on a machine, with the device
// behind the nodes, which knows the files a.gbs and b.gbs. They fit the first card.
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
	tree, err := fpgatree.Write(sysroot.TempDir(t), m)
	if err != nil {
		t.Fatal(err)
	}
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

// programmed fails the test unless the card was programmed so often.
func (r *intelRig) programmed(what string, want int) {
	r.t.Helper()
	if got := len(r.device.Calls(fpgadevice.Program)); got != want {
		r.t.Errorf("%s: programmed %d times, want %d", what, got, want)
	}
}

// Through the driver of Intel's cards, with the device behind the nodes: a container's file
// is programmed once, its function is listed, and what the card finds faulty fails the
// start, and is programmed again though the port still shows the old function.
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
	r.file(string(b), r.root, "bitstreams/b.gbs") // built anew
	r.says("a file that the card finds faulty", r.prepare("b.gbs", nil, id), id, "faulty")
	r.programmed("faulty", 3)
	r.says("no file", r.prepare("", nil, id), "the content of region 0 of the card fpga-0001-05-00-1 is not known", "faulty")
	r.do(r.prepare("b.gbs", nil, id)) // which it still shows
	r.programmed("again", 4)
}

// What cannot be right is refused with a sentence that has the file, the card and the
// reason, and the card stays as it was.
func TestIntelRefuses(t *testing.T) {
	r := newIntelRig(t, programming)
	const id = "fpga-0000-05-00-0-port-0"
	at := pci.Address{Bus: 5}
	dir, err := r.tree.Find(at, "port0")
	r.do(err)
	afu := func() string {
		content, err := os.ReadFile(filepath.Join(r.tree.Root, dir, "afu_id"))
		r.do(err)
		return string(content)
	}
	was := afu()
	files := filepath.Join(r.root, "bitstreams")
	good, err := os.ReadFile(filepath.Join(files, "a.gbs"))
	r.do(err)
	lying := append([]byte(nil), good...)
	binary.LittleEndian.PutUint32(lying[16:], uint32(len(good))) // the length of its metadata
	foreign := fpgadevice.Bitstream{Interface: strings.Repeat("7", 32), AFU: functionA, Payload: []byte("x")}
	for name, content := range map[string][]byte{
		"cut.gbs": good[:len(good)/3], "ends.gbs": good[:len(good)-len("payload of "+functionA)], "lies.gbs": lying, "foreign.gbs": foreign.GBS(),
		"empty.gbs": nil, "raw.bin": []byte("a bitstream without a header"), "../secret.gbs": good, "deep/real.gbs": good,
	} {
		r.file(string(content), files, name)
	}
	r.file(string(good), files, "large.gbs")
	r.do(os.Truncate(filepath.Join(files, "large.gbs"), bitstream.Limit+1))
	for link, to := range map[string]string{
		"absolute.gbs": filepath.Join(r.root, "secret.gbs"), "out.gbs": "../secret.gbs", "in": "deep", "up.gbs": "in/../../secret.gbs",
		"round.gbs": "round.gbs", "null.gbs": "/dev/null",
	} {
		r.do(os.Symlink(to, filepath.Join(files, link)))
	}
	r.do(unix.Mkfifo(filepath.Join(files, "pipe.gbs"), 0o600))
	for name, want := range map[string]string{
		"foreign.gbs": "it is for the interface " + strings.Repeat("7", 32) + ", and the port has " + r.interfaceID,
		"cut.gbs":     "it is cut off", "ends.gbs": "the bitstream is missing", "lies.gbs": "it is cut off", "empty.gbs": "it is empty",
		"raw.bin": "does not say what it is for", "large.gbs": fmt.Sprintf("it has %d bytes, and a bitstream has", bitstream.Limit+1),
		"../secret.gbs": "it is a path", "/dev/null": "it is a path", "deep/real.gbs": "it is a path", "..": "that is a directory",
		"absolute.gbs": "leads out of the directory", "out.gbs": "leads out of the directory", "up.gbs": "leads out of the directory",
		"round.gbs": "round in circles", "null.gbs": "leads out of the directory", "deep": "no regular file", "pipe.gbs": "no regular file",
		"none.gbs": "no such file", "a.gbs\x00": "cannot be printed",
	} {
		r.says(name, r.prepare(name, nil, id), id, strings.TrimSuffix(name, "\x00"), want)
	}
	if now := afu(); now != was {
		t.Errorf("the port has %q, and had %q", now, was)
	}
	if calls := r.device.Calls(); len(calls) > 0 {
		t.Errorf("the kernel was asked: %+v", calls)
	}
	r.do(r.prepare("a.gbs", nil, id))
	if now := strings.TrimSpace(afu()); now != functionA {
		t.Errorf("the port has %q then", now)
	}
	r.programmed("what fits", 1)
}

// Of two containers that ask at once for different files for one region, the second is
// refused while the card is being programmed with the first one's.
func TestIntelConflict(t *testing.T) {
	r := newIntelRig(t, programming)
	const id = "fpga-0000-05-00-0-port-0"
	begun, hold := make(chan struct{}), make(chan struct{})
	r.device.Next(fpgadevice.Answer{Begun: begun, Hold: hold})
	var first, second error
	r.During(func() {
		var all sync.WaitGroup
		all.Go(func() { first = r.prepareCall(r.t.Context(), "a.gbs", nil, id) })
		<-begun
		second = r.prepareCall(r.t.Context(), "b.gbs", nil, id)
		close(hold)
		all.Wait()
	})
	r.do(first)
	r.says("the second", second, id, "b.gbs was not programmed into region 0 of the card fpga-0000-05-00-0", "asks for a.gbs")
	r.programmed("the first one's", 1)
	if d := device(r.Last, id); text(d, "functionID") != functionA {
		r.inventory("the first one's", func(inv *backendv1.Inventory) bool { return text(device(inv, id), "functionID") == functionA })
	}
}
