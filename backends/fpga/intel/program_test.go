package intel

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/backends/fpga/ioctl"
	"github.com/accelmux/accelmux/backends/sysfs"
	"github.com/accelmux/accelmux/test/fpgadevice"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/host"
)

// Verifies that a port of every kind of card is programmed once, by the right engine, as the
// right port, with every byte; and that it then has the function.
func TestProgram(t *testing.T) {
	for name, c := range map[string]struct {
		machine fpgatree.Machine
		family  Family
		id      string
		node    string
		port    int
	}{
		"D5005":            {fpgatree.NewD5005(), DFL, "fpga-0000-05-00-0-port-0", "dfl-fme.0", 0},
		"older driver":     {fpgatree.NewArria10(), OPAE, "fpga-0000-05-00-0-port-0", "intel-fpga-fme.0", 0},
		"virtual function": {fpgatree.NewVF(), DFL, "fpga-0000-05-00-1-port-0", "dfl-fme.0", 0},
		"third port":       {fpgatree.NewMixed(), DFL, "fpga-10000-e1-00-0-port-2", "dfl-fme.4", 2},
		"second of two":    {fpgatree.NewMixed(), DFL, "fpga-10000-e1-00-2-port-1", "dfl-fme.4", 1},
		"upper case":       {fpgatree.NewMixed(), DFL, "fpga-0000-3b-00-0-port-0", "dfl-fme.1", 0},
		"OFS":              {fpgatree.NewN6000(), DFL, "fpga-0000-01-00-0-port-0", "dfl-fme.0", 0},
	} {
		rig := newRig(t, c.machine, c.family)
		card, region := port(t, rig.Driver, c.id)
		f, payload := rig.file(t, region.Interface, crypto)
		if rig.Holds(region, f) {
			t.Errorf("%s: it has the function before it is programmed", name)
		}
		if err := rig.Program(t.Context(), card, region, f); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		card, region = port(t, rig.Driver, c.id)
		if known := region.State != driver.Unreported; known && region.Function != crypto || rig.Holds(region, f) != known {
			t.Errorf("%s: the port has %s %s", name, region.State, region.Function)
		}
		calls := rig.device.Calls()
		if len(calls) != 1 || calls[0].Request != fpgadevice.Program || calls[0].Node != c.node || calls[0].Port != c.port || calls[0].Sum != sha256.Sum256(payload) {
			t.Errorf("%s: calls %+v", name, calls)
		}
		if len(card.Faults) > 0 {
			t.Errorf("%s: faults %v", name, card.Faults)
		}
	}
}

// Verifies the error of each way in which a programming fails, and the state of the port.
func TestProgramFails(t *testing.T) {
	const was, other = "f7df405cbd7acf7222f144b0b93acd18", "d8424dc4a4a3c413f89e433683f9040b"
	for name, c := range map[string]struct {
		answer fpgadevice.Answer
		want   []string
	}{
		"faulty":          {fpgadevice.Answer{Errno: unix.EIO, Faults: 2}, []string{"found the bitstream faulty", "reports: reconfig CRC error", "still reports the accelerator function " + was + ", but may be overwritten in part"}},
		"faulty and gone": {fpgadevice.Answer{Errno: unix.EIO, AFU: fpgatree.NoAFU}, []string{"the port has no accelerator function now"}},
		"no answer":       {fpgadevice.Answer{Errno: unix.ETIMEDOUT}, []string{"did not answer in time", "program it again before it is used"}},
		"busy":            {fpgadevice.Answer{Errno: unix.EBUSY}, []string{"another program", "the port is as it was, with the accelerator function " + was}},
		"no memory":       {fpgadevice.Answer{Errno: unix.ENOMEM}, []string{"no memory", "as it was"}},
		"another AFU":     {fpgadevice.Answer{AFU: other}, []string{"the port has the accelerator function " + other + " instead of " + crypto}},
		"none":            {fpgadevice.Answer{AFU: fpgatree.NoAFU}, []string{"the port has no accelerator function instead of " + crypto}},
		"unplugged":       {fpgadevice.Answer{Gone: true}, []string{"what the port has is unknown: the card or its driver has gone"}},
	} {
		rig, card, region := newD5005(t)
		f, _ := rig.file(t, region.Interface, crypto)
		rig.device.Next(c.answer)
		var err error
		synctest.Test(t, func(t *testing.T) { err = rig.Program(t.Context(), card, region, f) }) // it waits for the port
		if kept := strings.Contains(fmt.Sprint(err), "as it was"); kept != errors.As(err, &driver.UntouchedError{}) {
			t.Errorf("%s: %v, and that it is untouched: %v", name, err, !kept)
		}
		for _, want := range append(c.want, "program port 0 of the card fpga-0000-05-00-0 (Intel FPGA PAC D5005) with "+f.Path+": ") {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}

// Verifies that invalid files and ports are refused before anything is changed.
func TestProgramRefuses(t *testing.T) {
	rig, card, region := newD5005(t)
	f, _ := rig.file(t, region.Interface, crypto)
	refused := func(name string, err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &driver.UntouchedError{}) {
			t.Errorf("%s: %v, want %q, untouched", name, err, want)
		}
	}
	foreign, _ := rig.file(t, "a5d72a3cc8b04939912cf715e5dc10ca", crypto)
	refused("another interface", rig.Program(t.Context(), card, region, foreign),
		"does not fit port 0 of the card fpga-0000-05-00-0 (Intel FPGA PAC D5005): it is for the interface a5d72a3cc8b04939912cf715e5dc10ca, and the port has 9346116da52d5ca8b06aa9a389ef7c8d")
	old := region
	old.Interface = "a5d72a3cc8b04939912cf715e5dc10ca"
	refused("other firmware meanwhile", rig.Program(t.Context(), card, old, foreign), "it does not fit any more")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	refused("no time", rig.Program(ended, card, region, f), "context canceled; the port is as it was")
	fpgatest.OK(t, os.Remove(filepath.Join(rig.tree.Devfs(), "dfl-fme.0")))
	refused("no node", rig.Program(t.Context(), card, region, f), "dfl-fme.0: no such file or directory; the port is as it was")
	fpgatest.OK(t, rig.tree.Unplug(0))
	refused("no card", rig.Program(t.Context(), card, region, f), "it is not there: the card or its driver has gone")
	changed, _ := rig.file(t, region.Interface, crypto)
	fpgatest.OK(t, os.WriteFile(changed.Path, []byte("shorter"), 0o600))
	refused("a changed file", rig.Program(t.Context(), card, region, changed), "it was changed since it was opened")
	if calls := rig.device.Calls(); len(calls) > 0 {
		t.Errorf("the kernel got %+v", calls)
	}
}

// Verifies that the node must have the number that the kernel reports.
func TestStaleNode(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewD5005())
	if info, err := os.Stat(filepath.Join(tree.Devfs(), "dfl-port.0")); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		host.Lacks(t, "device nodes cannot be made here: %v", err)
	}
	d := on(tree, DFL)
	d.open = func(path string) (ioctl.Node, error) { t.Errorf("%s was opened", path); return nil, unix.ENXIO }
	card, region := port(t, d, "fpga-0000-05-00-0-port-0")
	fpgatest.OK(t, tree.SetFile("sys/class/fpga_region/region0/dfl-port.0/dev", "244:7\n"))
	if _, err := d.Reset(t.Context(), card, region); err == nil || !strings.Contains(err.Error(), "dfl-port.0 is 244:0, and the kernel's is 244:7") {
		t.Error(err)
	}
}

// Verifies that a file that is written to while it is programmed is an error.
func TestFileChangesMeanwhile(t *testing.T) {
	rig, card, region := newD5005(t)
	f, _ := rig.file(t, region.Interface, crypto)
	err := held(rig.device.Next, func() error { return rig.Program(t.Context(), card, region, f) }, func() {
		file, err := os.OpenFile(f.Path, os.O_WRONLY|os.O_APPEND, 0)
		fpgatest.OK(t, err)
		_, err = file.WriteString("more")
		fpgatest.OK(t, errors.Join(err, file.Close()))
	})
	if !errors.Is(err, bitstream.ErrChanged) || !strings.Contains(err.Error(), "what the port has is unknown: program it again") {
		t.Error(err)
	}
}

// Verifies that a call whose context ends returns when the kernel is done, and that one whose
// context has ended does nothing.
func TestOutOfTime(t *testing.T) {
	rig := newRig(t, fpgatree.NewMixed(), DFL)
	card, region := port(t, rig.Driver, "fpga-10000-e1-00-1-port-0")
	f, payload := rig.file(t, region.Interface, crypto)
	ctx, cancel := context.WithCancel(t.Context())
	program := func() error { return rig.Program(ctx, card, region, f) }
	fpgatest.OK(t, held(rig.device.Next, program, func() {
		cancel()
		if err := program(); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "; the port is as it was") {
			t.Error(err)
		}
	}))
	calls := rig.device.Calls()
	if len(calls) != 1 || calls[0].Sum != sha256.Sum256(payload) || !calls[0].Done {
		t.Errorf("calls %+v", calls)
	}
	if _, region := port(t, rig.Driver, region.ID); region.Function != crypto {
		t.Errorf("it has %s", region.Function)
	}
}

// Verifies that a programming waits a while for a port in reset, and that one that stays there
// is an error that has what to do.
func TestStuckInReset(t *testing.T) {
	for name, c := range map[string]struct {
		answer fpgadevice.Answer
		busy   func(reads int, programmed bool) bool
		want   string
	}{
		"for a moment":         {fpgadevice.Answer{}, func(reads int, programmed bool) bool { return programmed && reads < 10 }, ""},
		"for good":             {fpgadevice.Answer{}, func(_ int, programmed bool) bool { return programmed }, "the kernel reported success, and the port is still in reset: Linux leaves a port in reset when its programming fails"},
		"after an error":       {fpgadevice.Answer{Errno: unix.EIO}, func(_ int, programmed bool) bool { return programmed }, "the port is left in reset: Linux leaves a port in reset when its programming fails: if it stays so, unbind the driver from 0000:05:00.0"},
		"before":               {fpgadevice.Answer{}, func(int, bool) bool { return true }, "the port is in reset already"},
		"before, for a moment": {fpgadevice.Answer{}, func(reads int, programmed bool) bool { return !programmed && reads < 5 }, ""},
	} {
		rig, card, region := newD5005(t)
		f, _ := rig.file(t, region.Interface, crypto)
		rig.device.Next(c.answer)
		reads, was := 0, false
		rig.read = func(path string, limit int) ([]byte, error) {
			if filepath.Base(path) == "afu_id" {
				programmed := len(rig.device.Calls()) > 0
				if programmed && !was {
					was = programmed
					reads = 0
				}
				reads++
				if c.busy(reads, programmed) {
					return nil, &os.PathError{Op: "read", Path: path, Err: unix.EBUSY}
				}
			}
			return sysfs.Read(path, limit)
		}
		var err error
		synctest.Test(t, func(t *testing.T) { err = rig.Program(t.Context(), card, region, f) })
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if name == "before" && len(rig.device.Calls()) > 0 {
			t.Errorf("%s: it was programmed", name)
		}
	}
}

// Verifies which files fit a port, and the errors of others; and that a port's content is known
// only by IDs.
func TestFits(t *testing.T) {
	rig := newRig(t, fpgatree.NewMixed(), DFL)
	card, region := port(t, rig.Driver, "fpga-10000-e1-00-0-port-2")
	gbs := func() bitstream.File {
		f, _ := rig.file(t, region.Interface, crypto)
		return *f
	}
	for name, c := range map[string]struct {
		change func(*driver.Card, *driver.Region, *bitstream.File)
		want   string
	}{
		"fits":       {func(*driver.Card, *driver.Region, *bitstream.File) {}, ""},
		"raw":        {func(_ *driver.Card, _ *driver.Region, f *bitstream.File) { f.Kind = bitstream.Raw }, "does not name what it is for"},
		"AMD's":      {func(_ *driver.Card, _ *driver.Region, f *bitstream.File) { f.Kind = bitstream.Xclbin }, "for a card of AMD's"},
		"no ID":      {func(_ *driver.Card, r *driver.Region, _ *bitstream.File) { r.Interface = "" }, "does not report the port's interface ID"},
		"another":    {func(_ *driver.Card, r *driver.Region, _ *bitstream.File) { r.Interface = crypto }, "and the port has " + crypto},
		"no AFU":     {func(_ *driver.Card, _ *driver.Region, f *bitstream.File) { f.Accelerators = nil }, "no accelerator function"},
		"too large":  {func(_ *driver.Card, _ *driver.Region, f *bitstream.File) { f.Payload.Size = 1 << 32 }, "4294967296 bytes, and the driver takes"},
		"in a VM":    {func(c *driver.Card, _ *driver.Region, _ *bitstream.File) { c.Management = nil }, "program it from the host"},
		"wrong port": {func(_ *driver.Card, r *driver.Region, _ *bitstream.File) { r.Programmable = false }, "does not have this port"},
	} {
		changed, at, f := card, region, gbs()
		c.change(&changed, &at, &f)
		err := rig.Fits(changed, at, &f)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), f.Path+" does not fit port 2 of the card fpga-10000-e1-00-0 (Intel FPGA PAC N3000): ")) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	loaded, f := region, gbs()
	loaded.Function = crypto
	for name, change := range map[string]func(*driver.Region, *bitstream.File){
		"another function":  func(r *driver.Region, _ *bitstream.File) { r.Function = strings.Repeat("1", 32) },
		"another interface": func(r *driver.Region, _ *bitstream.File) { r.Interface = crypto },
		"in reset":          func(r *driver.Region, _ *bitstream.File) { r.State = driver.Busy },
		"a raw file":        func(_ *driver.Region, f *bitstream.File) { f.Kind = bitstream.Raw },
	} {
		at, file := loaded, f
		change(&at, &file)
		if rig.Holds(at, &file) || !rig.Holds(loaded, &f) {
			t.Errorf("%s: it holds the file", name)
		}
	}
	// An engine that has fewer ports does not program this one.
	fme, err := rig.tree.Find(address(t, "10000:e1:00.0"), "fme")
	fpgatest.OK(t, errors.Join(err, rig.tree.SetFile(fme+"/ports_num", "2\n")))
	if _, region := port(t, rig.Driver, region.ID); region.Programmable {
		t.Error("a port that the engine does not have is programmable")
	}
}
