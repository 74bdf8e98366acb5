package manager

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// bench is a machine with a kernel that programs its FPGA.
type bench struct {
	*testing.T
	tree   *fpgatree.Tree
	kernel *fpgatree.Kernel
	driver *Driver
}

func newBench(t *testing.T, m fpgatree.Machine, flags uint32) *bench {
	b := &bench{T: t, tree: fpgatest.Tree(t, m)}
	b.kernel = &fpgatree.Kernel{Tree: b.tree, Firmware: t.TempDir()}
	b.driver = at(b.tree, Settings{Firmware: b.kernel.Firmware, Flags: flags, Write: b.kernel.Write})
	return b
}

// target returns the card, and its first region.
func (b *bench) target() (driver.Card, driver.Region) {
	b.Helper()
	got := b.driver.Read()
	if len(got.Cards) != 1 || len(got.Cards[0].Regions) == 0 {
		b.Fatalf("%+v", got)
	}
	return got.Cards[0], got.Cards[0].Regions[0]
}

// open makes a file and opens it as a bitstream.
func (b *bench) open(name, content string) *bitstream.File {
	b.Helper()
	return fpgatest.Bitstream(b, name, []byte(content))
}

// program programs a file into the first region.
func (b *bench) program(name string) error {
	b.Helper()
	c, r := b.target()
	return b.driver.Program(b.Context(), c, r, b.open(name, content))
}

// clean checks that nothing is left in the directory of firmware.
func (b *bench) clean() {
	b.Helper()
	if left, err := os.ReadDir(b.kernel.Firmware); err != nil || len(left) > 0 {
		b.Errorf("%v is left, %v", left, err)
	}
}

const content = "the bytes of a bitstream, as they are"

// A file is programmed completely, with the flags of the settings, and is removed afterwards.
func TestProgram(t *testing.T) {
	b := newBench(t, fpgatree.NewZynqMP(), 0)
	fpgatest.OK(t, b.tree.SetManager(0, "state", "write error\n"))
	b.kernel.Flags = 0x20 // of another process
	c, r := b.target()
	b.kernel.During = func(step string) {
		left, err := os.ReadDir(b.kernel.Firmware)
		if err != nil || len(left) != 1 || left[0].Name() != "accelmux-"+c.ID+".bin" {
			t.Errorf("%s: the directory has %v, %v", step, left, err)
		}
		if _, now := b.target(); now.State != driver.Busy {
			t.Errorf("%s: the region is %s", step, now.State)
		}
	}
	f := b.open("a.bin", content)
	fpgatest.OK(t, b.driver.Program(t.Context(), c, r, f))
	if len(b.kernel.Programmed) != 1 || string(b.kernel.Programmed[0]) != content || b.kernel.Flags != 0 {
		t.Errorf("%q, flags %#x", b.kernel.Programmed, b.kernel.Flags)
	}
	if c, r = b.target(); len(c.Faults) > 0 || r.State != driver.Unreported || b.driver.Holds(r, f) {
		t.Errorf("%+v", c)
	}
	b.clean()
	// The remains of a process that was killed do no harm.
	for _, name := range []string{"accelmux-" + c.ID + ".bin", ".accelmux-" + c.ID + ".bin"} {
		fpgatest.OK(t, os.WriteFile(filepath.Join(b.kernel.Firmware, name), []byte("old"), 0o400))
	}
	if err := b.driver.Program(t.Context(), c, r, f); err != nil || string(b.kernel.Programmed[1]) != content {
		t.Errorf("%v, %q", err, b.kernel.Programmed)
	}
	b.clean()
}

// Partial reconfiguration is programmed as such, also where there are several regions.
func TestProgramPartially(t *testing.T) {
	m := fpgatree.NewArria10SoC()
	m.Plain[0].Firmware = true
	b := newBench(t, m, 1)
	if err := b.program("a.rbf"); err != nil || b.kernel.Flags != 1 {
		t.Errorf("%v, flags %#x", err, b.kernel.Flags)
	}
	b = newBench(t, m, 0)
	if err := b.program("a.rbf"); err == nil || !strings.Contains(err.Error(), "cannot be programmed alone") {
		t.Error(err)
	}
	// Flags that the kernel has no file for.
	b = newBench(t, fpgatree.NewZynqMP(), 1)
	dir, err := b.tree.Manager(0)
	fpgatest.OK(t, err)
	fpgatest.OK(t, os.Remove(filepath.Join(b.tree.Root, dir, "flags")))
	if err := b.program("a.bin"); err == nil || !strings.Contains(err.Error(), "/flags, and the settings have the flags 0x1; it has what it had") {
		t.Error(err)
	}
	b.driver.settings.Flags = 0
	fpgatest.OK(t, b.program("a.bin"))
	b.clean()
}

// Each step that fails returns the state of the region, and the next programming succeeds.
func TestProgramFails(t *testing.T) {
	for step, want := range map[string]string{
		"firmware request": "which has what it had: the kernel did not find it", "parse header": "refused before",
		"write init": "what is in it is not known", "write": "what is in it is not known", "write complete": "what is in it is not known",
	} {
		b := newBench(t, fpgatree.NewZynqMP(), 0)
		c, r := b.target()
		b.kernel.Fail = step
		f := b.open("a.bin", content)
		err := b.driver.Program(t.Context(), c, r, f)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), f.Path) || !strings.Contains(err.Error(), step+" error") {
			t.Errorf("%s: %v", step, err)
		}
		b.clean()
		c, _ = b.target()
		if keeps := untouched[step+" error"]; (len(c.Faults) == 0) != keeps || errors.As(err, &driver.UntouchedError{}) != keeps {
			t.Errorf("%s: %+v, %v", step, c.Faults, err)
		}
		b.kernel.Fail = ""
		fpgatest.OK(t, b.driver.Program(t.Context(), c, r, f))
		if c, _ = b.target(); len(c.Faults) > 0 {
			t.Errorf("%s: %+v", step, c.Faults)
		}
	}
}

// An FPGA that does not operate is a failure, even if the kernel returned no error.
func TestProgramDoesNotWork(t *testing.T) {
	b := newBench(t, fpgatree.NewZynqMP(), 0)
	b.kernel.Status = "reconfig CRC error\nstart-up sequence has not finished\n"
	err := b.program("a.bin")
	if err == nil || !strings.Contains(err.Error(), "does not report success") || !strings.Contains(err.Error(), "reconfig CRC error; start-up") {
		t.Error(err)
	}
	// The kernel uses another directory, and the error names that.
	b = newBench(t, fpgatree.NewZynqMP(), 0)
	b.driver.settings.Firmware = t.TempDir()
	parameters := filepath.Join(b.tree.Sysfs(), "module/firmware_class/parameters")
	fpgatest.OK(t, errors.Join(os.MkdirAll(parameters, 0o755), os.WriteFile(filepath.Join(parameters, "path"), []byte("/mnt/firmware\n"), 0o600)))
	err = b.program("a.bin")
	if err == nil || !errors.Is(err, unix.ENOENT) || !strings.Contains(err.Error(), `the kernel searches "/mnt/firmware", then /lib/firmware`) {
		t.Error(err)
	}
	// A kernel that returns no error, and does nothing.
	b.driver.settings.Write = func(string, string) error { return nil }
	fpgatest.OK(t, b.tree.SetManager(0, "state", "unknown\n"))
	if err := b.program("a.bin"); err == nil || !strings.Contains(err.Error(), `does not report success (state "unknown")`) {
		t.Error(err)
	}
	// A write that the kernel refuses.
	b.driver.settings.Write = func(string, string) error { return &fs.PathError{Op: "write", Path: "firmware", Err: unix.EACCES} }
	if err := b.program("a.bin"); err == nil || !strings.Contains(err.Error(), "programming needs root") {
		t.Error(err)
	}
}

// What cannot be programmed is refused before anything is changed.
func TestRefusals(t *testing.T) {
	bit := string(bitHeader) + "a design;UserID=0XFFFFFFFF"
	zynq := fpgatree.NewZynq()
	zynq.Plain[0].Firmware = true
	for name, c := range map[string]struct {
		machine       fpgatree.Machine
		file, content string
		want          string
	}{
		"no file to program by":  {fpgatree.NewZynq(), "a.bin", content, "the kernel has no file"},
		"a .bit for a Zynq":      {zynq, "a.bit", bit, "byte-swapped .bin"},
		"a .bin for a Zynq":      {zynq, "a.bin", content, ""},
		"a .bit for a successor": {fpgatree.NewZynqMP(), "a.bit", bit, ""},
		"a short file":           {zynq, "a.bin", "0123456789abcdef0123", ""},
	} {
		b := newBench(t, c.machine, 0)
		card, r := b.target()
		f := b.open(c.file, c.content)
		err := b.driver.Fits(card, r, f)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if program := b.driver.Program(t.Context(), card, r, f); (program != nil) != (err != nil) {
			t.Errorf("%s: %v", name, program)
		}
		b.clean()
	}
	b := newBench(t, fpgatree.NewZynqMP(), 0)
	c, r := b.target()
	for _, kind := range []bitstream.Kind{bitstream.GBS, bitstream.Xclbin} {
		if err := b.driver.Fits(c, r, &bitstream.File{Path: "x", Kind: kind}); err == nil || !strings.Contains(err.Error(), "it is a ."+kind.String()) {
			t.Error(err)
		}
	}
	if done, err := b.driver.Reset(t.Context(), c, r); !errors.Is(err, ErrNoReset) || done != "" || !strings.Contains(err.Error(), r.ID) {
		t.Errorf("%q, %v", done, err)
	}
}

// A directory that is missing or cannot be written, a driver that was reloaded, another process
// and a context that ended are errors, and nothing is changed.
func TestProgramIsHindered(t *testing.T) {
	b := newBench(t, fpgatree.NewZynqMP(), 0)
	c, r := b.target()
	f := b.open("a.bin", content)
	refused := func(ctx context.Context, want string) {
		t.Helper()
		err := b.driver.Program(ctx, c, r, f)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "it has what it had") || !errors.As(err, &driver.UntouchedError{}) {
			t.Errorf("%v, want %q", err, want)
		}
		if len(b.kernel.Programmed) > 0 {
			t.Errorf("%q was programmed", b.kernel.Programmed)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	refused(over, "kernel's directory of firmware, "+b.kernel.Firmware+": context canceled") // not copied in vain
	b.clean()
	there := b.driver.settings.Firmware
	b.driver.settings.Firmware = filepath.Join(there, "nothing")
	refused(t.Context(), "name in the settings where this process has the host's")
	b.driver.settings.Firmware = "/proc" // no process can create files there
	refused(t.Context(), "kernel's directory of firmware, /proc")
	b.driver.settings.Firmware = there
	lock, err := os.OpenFile(filepath.Join(b.tree.Sysfs(), c.Dir, "firmware"), os.O_WRONLY, 0)
	fpgatest.OK(t, err)
	fpgatest.OK(t, unix.Flock(int(lock.Fd()), unix.LOCK_SH))
	refused(t.Context(), "another process programs it")
	fpgatest.OK(t, lock.Close())
	// A file that is written to while it is copied.
	path := f.Path
	fpgatest.OK(t, os.WriteFile(path, []byte(content+content), 0o600))
	refused(t.Context(), "it was changed")
	f = b.open("b.bin", content)
	fpgatest.OK(t, b.tree.ReloadPlain())
	refused(t.Context(), "its driver was unloaded or loaded again")
	b.clean()
}
