package fpgadevice

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/ioctl"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/sysroot"
)

const (
	crypto = "11111111222233334444555566667777"
	other  = "99999999222233334444555566667777"
)

// machine is a tree with its device.
func machine(t testing.TB, m fpgatree.Machine) (*fpgatree.Tree, *Device) {
	t.Helper()
	tree, err := fpgatree.Write(sysroot.TempDir(t), m)
	if err != nil {
		t.Fatal(err)
	}
	return tree, New(t, tree)
}

// open opens a node of the tree in this process.
func open(t testing.TB, tree *fpgatree.Tree, d *Device, name string) ioctl.Node {
	t.Helper()
	n, err := d.Open(filepath.Join(tree.Devfs(), name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// read is a file of a port or an engine.
func read(t testing.TB, tree *fpgatree.Tree, at pci.Address, of, pattern string) string {
	t.Helper()
	dir, err := tree.Find(at, of)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(tree.Root, dir, pattern))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v are %s of %s: %v", files, pattern, of, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Trim(string(b), "\x00\n ")
}

// list is every file of the tree with its content.
func list(t testing.TB, tree *fpgatree.Tree) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(tree.Root, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			b, err := os.ReadFile(path)
			all[path] = string(b)
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// sum is what a payload is known by.
func sum(payload []byte) [32]byte { return sha256.Sum256(payload) }

var boards = map[string]struct {
	machine    fpgatree.Machine
	fme, port  string
	at, portAt pci.Address
	family     ioctl.Family
	manager    string
}{
	"DFL":  {fpgatree.NewN3000(), "dfl-fme.0", "dfl-port.0", pci.Address{Bus: 5}, pci.Address{Bus: 5}, ioctl.DFL, "dfl-fme-mgr.0/fpga_manager/fpga0/"},
	"OPAE": {fpgatree.NewArria10(), "intel-fpga-fme.0", "intel-fpga-port.0", pci.Address{Bus: 5}, pci.Address{Bus: 5}, ioctl.OPAE, "fpga_manager/fpga0/"},
	"VF":   {fpgatree.NewVF(), "dfl-fme.0", "dfl-port.0", pci.Address{Bus: 5}, pci.Address{Bus: 5, Function: 1}, ioctl.DFL, "dfl-fme-mgr.0/fpga_manager/fpga0/"},
}

// Verifies that both drivers program and reset: the port says the new AFU and the
// manager that it operates; a reset changes nothing that sysfs shows; and what was
// asked is noted to the byte.
func TestPrograms(t *testing.T) {
	for name, b := range boards {
		t.Run(name, func(t *testing.T) {
			tree, d := machine(t, b.machine)
			payload := bytes.Repeat([]byte("bit"), 1<<20+1)
			d.Know(Bitstream{Interface: strings.ToUpper(b.machine.Cards[0].Interface), AFU: crypto, Payload: payload})
			if err := ioctl.ProgramPort(open(t, tree, d, b.fme), b.family, 0, payload); err != nil {
				t.Fatal(err)
			}
			if afu, state := read(t, tree, b.portAt, "port0", "afu_id"), read(t, tree, b.at, "fme", b.manager+"state"); afu != crypto || state != "operating" {
				t.Errorf("AFU %s, state %s", afu, state)
			}
			if err := tree.SetRegister(b.portAt, "port0/errors", 3); err != nil {
				t.Fatal(err)
			}
			before, port := list(t, tree), open(t, tree, d, b.port)
			if err := ioctl.ResetPort(port, b.family); err != nil {
				t.Error(err)
			}
			for file, text := range list(t, tree) {
				if text != before[file] {
					t.Errorf("the reset changed %s: %q", file, text)
				}
			}
			info, err := ioctl.PortInfo(port, b.family)
			if want := (ioctl.Info{Regions: regions, Messages: messages}); err != nil || info.Regions != want.Regions || info.Messages != want.Messages || info.Interrupts != map[bool]uint32{true: interrupts}[b.family == ioctl.OPAE] {
				t.Errorf("info %+v, %v", info, err)
			}
			want := []Call{
				{Request: Program, Node: b.fme, Function: b.at, Size: len(payload), Sum: sum(payload), PID: 0, Done: true},
				{Request: Reset, Node: b.port, Function: b.portAt, Done: true},
				{Request: Info, Node: b.port, Function: b.portAt, Done: true},
			}
			if got := d.Calls(); len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
				t.Errorf("calls %+v", got)
			}
			if got := d.Calls(Reset); len(got) != 1 || got[0] != want[1] {
				t.Errorf("resets %+v", got)
			}
		})
	}
}

// Verifies that a bitstream that the card does not know, or for another interface, is
// incompatible, and where the drivers say so.
func TestIncompatible(t *testing.T) {
	for name, b := range boards {
		tree, d := machine(t, b.machine)
		stranger := Bitstream{Interface: other, AFU: crypto, Payload: []byte("for another")}
		d.Know(stranger)
		before := read(t, tree, b.portAt, "port0", "afu_id")
		for _, payload := range [][]byte{[]byte("unknown"), stranger.Payload} {
			err := ioctl.ProgramPort(open(t, tree, d, b.fme), b.family, 0, payload)
			var e *ioctl.Error
			if !errors.Is(err, unix.EIO) || !errors.As(err, &e) || (e.Faults == ioctl.IncompatibleBitstream) != (b.family == ioctl.OPAE) {
				t.Errorf("%s: %v", name, err)
			}
			if state := read(t, tree, b.at, "fme", b.manager+"state"); state != "write complete error" || read(t, tree, b.portAt, "port0", "afu_id") != before {
				t.Errorf("%s: state %s", name, state)
			}
			if b.family == ioctl.DFL && read(t, tree, b.at, "fme", b.manager+"status") != "reconfig incompatible image" {
				t.Errorf("%s: status %q", name, read(t, tree, b.at, "fme", b.manager+"status"))
			}
		}
		good := Bitstream{Interface: b.machine.Cards[0].Interface, AFU: crypto, Payload: []byte("good")}
		d.Know(good)
		if err := ioctl.ProgramPort(open(t, tree, d, b.fme), b.family, 0, good.Payload); err != nil {
			t.Errorf("%s: then: %v", name, err)
		}
	}
}

// Verifies answers that a test sets: errors, another AFU, those of one node only.
func TestAnswers(t *testing.T) {
	tree, d := machine(t, fpgatree.NewMany(2))
	first, second := open(t, tree, d, "dfl-fme.0"), open(t, tree, d, "dfl-fme.1")
	at := tree.Machine().Cards[0].Address
	b := Bitstream{Interface: tree.Machine().Cards[0].Interface, AFU: crypto, Payload: []byte("x")}
	d.Know(b)
	d.Next(Answer{Node: "dfl-fme.0", Errno: unix.EBUSY}, Answer{Errno: unix.EIO, Faults: 0x12, AFU: fpgatree.NoAFU}, Answer{AFU: other})
	if err := ioctl.ProgramPort(second, ioctl.DFL, 0, b.Payload); !errors.Is(err, unix.EIO) {
		t.Error(err)
	}
	second2 := tree.Machine().Cards[1].Address
	if got := read(t, tree, second2, "fme", "dfl-fme-mgr.1/fpga_manager/fpga1/status"); got != "reconfig CRC error\nreconfig fifo overflow error" || read(t, tree, second2, "port0", "afu_id") != fpgatree.NoAFU {
		t.Errorf("status %q", got)
	}
	if err := ioctl.ProgramPort(first, ioctl.DFL, 0, b.Payload); !errors.Is(err, unix.EBUSY) {
		t.Error(err)
	}
	if err := ioctl.ProgramPort(first, ioctl.DFL, 0, b.Payload); err != nil || read(t, tree, at, "port0", "afu_id") != other {
		t.Error(err)
	}
	if err := ioctl.ProgramPort(first, ioctl.DFL, 0, b.Payload); err != nil || read(t, tree, at, "port0", "afu_id") != crypto {
		t.Error(err)
	}
	d.NextReset(Answer{Errno: unix.ETIMEDOUT})
	port := open(t, tree, d, "dfl-port.1")
	if err := errors.Join(ioctl.ResetPort(port, ioctl.DFL)); !errors.Is(err, unix.ETIMEDOUT) {
		t.Error(err)
	}
	if err := ioctl.ResetPort(port, ioctl.DFL); err != nil {
		t.Error(err)
	}
}

// Verifies that a request waits for as long as the card needs and the test says, and
// that the time is noted; and that nothing waits for a device that is closed.
func TestWaits(t *testing.T) {
	tree, err := fpgatree.Write(sysroot.TempDir(t), fpgatree.NewN3000())
	if err != nil {
		t.Fatal(err)
	}
	d, err := Start(tree)
	if err != nil {
		t.Fatal(err)
	}
	fme, port := open(t, tree, d, "dfl-fme.0"), open(t, tree, d, "dfl-port.0")
	payload := []byte("x")
	d.Know(Bitstream{Interface: tree.Machine().Cards[0].Interface, AFU: crypto, Payload: payload})
	d.Needs(20*time.Millisecond, 10*time.Millisecond)
	began := time.Now()
	if err := errors.Join(ioctl.ProgramPort(fme, ioctl.DFL, 0, payload), ioctl.ResetPort(port, ioctl.DFL)); err != nil || time.Since(began) < 30*time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	if calls := d.Calls(); calls[0].Took < 20*time.Millisecond || calls[1].Took < 10*time.Millisecond {
		t.Errorf("calls %+v", calls)
	}
	begun, hold, answered := make(chan struct{}), make(chan struct{}), make(chan error)
	d.Next(Answer{Begun: begun, Hold: hold})
	go func() { answered <- ioctl.ProgramPort(fme, ioctl.DFL, 0, payload) }()
	<-begun
	if calls := d.Calls(Program); len(calls) != 2 || calls[1].Done {
		t.Errorf("calls %+v", calls)
	}
	close(hold)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	begun = make(chan struct{})
	d.NextReset(Answer{Begun: begun, Hold: make(chan struct{})})
	go func() { answered <- ioctl.ResetPort(port, ioctl.DFL) }()
	<-begun
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := <-answered; !errors.Is(err, unix.ENODEV) {
		t.Error(err)
	}
}

// Verifies that a card goes in the middle, and that who has an old node open is told so
// when the card is back.
func TestGone(t *testing.T) {
	tree, d := machine(t, fpgatree.NewVF())
	fme, port := open(t, tree, d, "dfl-fme.0"), open(t, tree, d, "dfl-port.0")
	d.Next(Answer{Gone: true})
	if err := ioctl.ProgramPort(fme, ioctl.DFL, 0, []byte("x")); !errors.Is(err, unix.ETIMEDOUT) {
		t.Error(err)
	}
	for _, back := range []bool{false, true} {
		if back {
			if err := tree.Plug(0); err != nil {
				t.Fatal(err)
			}
		}
		err, err2 := ioctl.ProgramPort(fme, ioctl.DFL, 0, []byte("x")), ioctl.ResetPort(port, ioctl.DFL)
		if !errors.Is(err, unix.EINVAL) || !errors.Is(err2, unix.EINVAL) {
			t.Errorf("back %t: %v, %v", back, err, err2)
		}
	}
	d.NextReset(Answer{Gone: true})
	if err := ioctl.ResetPort(open(t, tree, d, "dfl-port.0"), ioctl.DFL); !errors.Is(err, unix.ETIMEDOUT) {
		t.Error(err)
	}
	if _, err := d.Open(filepath.Join(tree.Devfs(), "dfl-port.0")); !errors.Is(err, unix.ENOENT) {
		t.Error(err)
	}
	if _, err := d.Open(os.DevNull); err == nil {
		t.Error("/dev/null is a node of the tree")
	}
}

// Verifies that a file of a bitstream is what the backend reads, and is read again.
func TestGBS(t *testing.T) {
	want := Bitstream{Interface: crypto, AFU: other, Payload: []byte("payload")}
	path := filepath.Join(t.TempDir(), "x.gbs")
	if err := os.WriteFile(path, want.GBS(), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := ReadGBS(path)
	if err != nil || got.Interface != want.Interface || got.AFU != want.AFU || !bytes.Equal(got.Payload, want.Payload) {
		t.Errorf("%+v, %v", got, err)
	}
	f, err := bitstream.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if f.Kind != bitstream.GBS || f.InterfaceID.Hex() != crypto || f.Accelerators[0].ID.Hex() != other || f.Payload.Size != 7 {
		t.Errorf("%+v", f)
	}
	for _, text := range []string{"", magic, magic + "\xff\xff\xff\xff", magic + "\x02\x00\x00\x00{}", magic + "\x02\x00\x00\x00{]"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadGBS(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
