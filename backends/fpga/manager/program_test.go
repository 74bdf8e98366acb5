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
	"github.com/accelmux/accelmux/backends/sdk"
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
	b := &bench{T: t, tree: plug(t, m)}
	b.kernel = &fpgatree.Kernel{Tree: b.tree, Firmware: t.TempDir()}
	b.driver = at(b.tree, Settings{Firmware: b.kernel.Firmware, Flags: flags, Write: b.kernel.Write})
	return b
}

// target is the card, and its first region.
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
	path := filepath.Join(b.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		b.Fatal(err)
	}
	f, err := bitstream.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	return f
}

// clean makes sure that nothing is left where the kernel looks.
func (b *bench) clean() {
	b.Helper()
	if left, err := os.ReadDir(b.kernel.Firmware); err != nil || len(left) > 0 {
		b.Errorf("%v is left, %v", left, err)
	}
}

const content = "the bytes of a bitstream, as they are"

// A file gets to the FPGA whole, with the flags of the settings, and leaves nothing.
func TestProgram(t *testing.T) {
	b := newBench(t, fpgatree.NewZynqMP(), 0)
	if err := b.tree.SetManager(0, "state", "write error\n"); err != nil {
		t.Fatal(err)
	}
	b.kernel.Flags = 0x20 // of somebody before
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
	if err := b.driver.Program(t.Context(), c, r, f); err != nil {
		t.Fatal(err)
	}
	if len(b.kernel.Programmed) != 1 || string(b.kernel.Programmed[0]) != content || b.kernel.Flags != 0 {
		t.Errorf("%q, flags %#x", b.kernel.Programmed, b.kernel.Flags)
	}
	if c, r = b.target(); len(c.Faults) > 0 || r.State != driver.Untold || b.driver.Holds(r, f) {
		t.Errorf("%+v", c)
	}
	b.clean()
	// What a process that was killed has left is no hindrance.
	for _, name := range []string{"accelmux-" + c.ID + ".bin", ".accelmux-" + c.ID + ".bin"} {
		if err := os.WriteFile(filepath.Join(b.kernel.Firmware, name), []byte("old"), 0o400); err != nil {
			t.Fatal(err)
		}
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
	c, r := b.target()
	if err := b.driver.Program(t.Context(), c, r, b.open("a.rbf", content)); err != nil || b.kernel.Flags != 1 {
		t.Errorf("%v, flags %#x", err, b.kernel.Flags)
	}
	b = newBench(t, m, 0)
	c, r = b.target()
	if err := b.driver.Program(t.Context(), c, r, b.open("a.rbf", content)); err == nil || !strings.Contains(err.Error(), "cannot be programmed alone") {
		t.Error(err)
	}
	// Flags that the kernel has no file for.
	b = newBench(t, fpgatree.NewZynqMP(), 1)
	dir, err := b.tree.Manager(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(b.tree.Root, dir, "flags")); err != nil {
		t.Fatal(err)
	}
	c, r = b.target()
	if err := b.driver.Program(t.Context(), c, r, b.open("a.bin", content)); err == nil || !strings.Contains(err.Error(), "/flags, and the settings have the flags 0x1; it has what it had") {
		t.Error(err)
	}
	b.driver.settings.Flags = 0
	if err := b.driver.Program(t.Context(), c, r, b.open("a.bin", content)); err != nil {
		t.Error(err)
	}
	b.clean()
}

// Each step that fails says what became of the region, and the next program mends it.
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
		if err := b.driver.Program(t.Context(), c, r, f); err != nil {
			t.Errorf("%s: %v", step, err)
		}
		if c, _ = b.target(); len(c.Faults) > 0 {
			t.Errorf("%s: %+v", step, c.Faults)
		}
	}
}

// A kernel that is content, and an FPGA that is not, is a failure.
func TestProgramDoesNotWork(t *testing.T) {
	b := newBench(t, fpgatree.NewZynqMP(), 0)
	c, r := b.target()
	b.kernel.Status = "reconfig CRC error\nstart-up sequence has not finished\n"
	err := b.driver.Program(t.Context(), c, r, b.open("a.bin", content))
	if err == nil || !strings.Contains(err.Error(), "does not say that it works") || !strings.Contains(err.Error(), "reconfig CRC error; start-up") {
		t.Error(err)
	}
	// The kernel looks elsewhere, and the error says where.
	b = newBench(t, fpgatree.NewZynqMP(), 0)
	c, r = b.target()
	b.driver.settings.Firmware = t.TempDir()
	parameters := filepath.Join(b.tree.Sysfs(), "module/firmware_class/parameters")
	if err := errors.Join(os.MkdirAll(parameters, 0o755), os.WriteFile(filepath.Join(parameters, "path"), []byte("/mnt/firmware\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	err = b.driver.Program(t.Context(), c, r, b.open("a.bin", content))
	if err == nil || !errors.Is(err, unix.ENOENT) || !strings.Contains(err.Error(), `it looks in "/mnt/firmware", then in /lib/firmware`) {
		t.Error(err)
	}
	// A kernel that says nothing, and does nothing.
	b.driver.settings.Write = func(string, string) error { return nil }
	if err := b.tree.SetManager(0, "state", "unknown\n"); err != nil {
		t.Fatal(err)
	}
	if err := b.driver.Program(t.Context(), c, r, b.open("a.bin", content)); err == nil || !strings.Contains(err.Error(), `does not say that it works (state "unknown")`) {
		t.Error(err)
	}
	// A write that the kernel does not take.
	b.driver.settings.Write = func(string, string) error { return &fs.PathError{Op: "write", Path: "firmware", Err: unix.EROFS} }
	if err := b.driver.Program(t.Context(), c, r, b.open("a.bin", content)); err == nil || !strings.Contains(err.Error(), "/sys mounted for writing") {
		t.Error(err)
	}
}

// What cannot be programmed is refused in a sentence, before anything is touched.
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

// A directory that is not there or cannot be written, a driver that was loaded anew,
// another process and a lack of time are told, and nothing is touched.
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
	b.driver.settings.Firmware = "/proc" // nobody can make files there
	refused(t.Context(), "kernel's directory of firmware, /proc")
	b.driver.settings.Firmware = there
	lock, err := os.OpenFile(filepath.Join(b.tree.Sysfs(), c.Dir, "firmware"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	refused(t.Context(), "another process programs it")
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	// A file that is written to while it is copied.
	path := f.Path
	if err := os.WriteFile(path, []byte(content+content), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t.Context(), "it was changed")
	f = b.open("b.bin", content)
	if err := b.tree.ReloadPlain(); err != nil {
		t.Fatal(err)
	}
	refused(t.Context(), "its driver was unloaded or loaded anew")
	b.clean()
}

// The system's write asks for what is there, and makes nothing.
func TestWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := write(file, "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(file, "name"); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "name" {
		t.Errorf("%q, %v", b, err)
	}
}

// Settings are refused by field.
func TestSettings(t *testing.T) {
	for want, s := range map[string]Settings{
		"": Defaults(), "manager.firmware": {Firmware: "firmware"}, "manager.flags": {Firmware: "/lib/firmware", Flags: 0x200},
		"firmware: \"/lib/../x\"": {Firmware: "/lib/../x"},
	} {
		var errs sdk.FieldErrors
		s.Check("manager", &errs)
		if text := errs.Error(); (text == "") != (want == "") || !strings.Contains(text, want) {
			t.Errorf("%+v: %s", s, text)
		}
	}
}
