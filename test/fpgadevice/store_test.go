package fpgadevice

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/fpgatree"
)

// writer writes a text to files in turn, and says after each what became of it: it
// opens them all before, as many as there are.
func writer(args []string) error {
	var files []*os.File
	for _, name := range args[1:] {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	for _, f := range files {
		_, err := f.WriteString(args[0])
		if err := errors.Join(err, f.Close()); err != nil {
			fmt.Println(err)
			continue
		}
		b, err := os.ReadFile(f.Name())
		if err != nil {
			return err
		}
		fmt.Printf("%s: %q\n", filepath.Base(f.Name()), b)
	}
	return nil
}

// registers raises some of a machine, and is where they are.
func registers(t *testing.T, tree *fpgatree.Tree) (port, fme string) {
	t.Helper()
	at := tree.Machine().Cards[0].Address
	for _, r := range []string{
		"port0/errors", "port0/first_error", "fme/fme_errors", "fme/first_error", "fme/next_error", "fme/pcie0_errors", "fme/catfatal_errors",
	} {
		if err := tree.SetRegister(at, r, 2); err != nil {
			t.Fatal(err)
		}
	}
	port, err := tree.Find(at, "port0")
	fme, err2 := tree.Find(at, "fme")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(tree.Root, port, "errors"), filepath.Join(tree.Root, fme, "errors")
}

// Verifies that code of this process clears a register by its value, with the evidence
// that goes with it and nothing else, and how the kernel refuses.
func TestWrite(t *testing.T) {
	tree, d := machine(t, fpgatree.NewN3000())
	port, fme := registers(t, tree)
	before := list(t, tree)
	for _, c := range []struct {
		file, text string
		want       error
	}{
		{filepath.Join(port, "errors"), "0x3", unix.EINVAL},
		{filepath.Join(port, "errors"), "many", unix.EINVAL},
		{filepath.Join(port, "errors"), "0x2", nil},
		{filepath.Join(port, "first_error"), "0x0", unix.EIO},
		{filepath.Join(fme, "fme_errors"), "2\n", nil},
		{filepath.Join(fme, "pcie0_errors"), "0x2", nil},
		{filepath.Join(fme, "catfatal_errors"), "0x2", unix.EIO},
		{filepath.Join(tree.Devfs(), "dfl-fme.0"), "x", nil},
		{filepath.Join(port, "none"), "x", nil},
	} {
		err := d.Write(c.file, c.text)
		outside := c.text == "x"
		if outside && (err == nil || !strings.Contains(err.Error(), "no file of sysfs")) || !outside && !errors.Is(err, c.want) || !outside && c.want == nil && err != nil {
			t.Errorf("%s to %s: %v, want %v", c.text, c.file, err, c.want)
		}
	}
	var changed []string
	for file, text := range list(t, tree) {
		if text != before[file] {
			changed = append(changed, filepath.Base(file))
			if text != "0x0\n" {
				t.Errorf("%s is %q", file, text)
			}
		}
	}
	if len(changed) != 6 {
		t.Errorf("changed were %q", changed)
	}
	file := filepath.Join(filepath.Dir(port), "ltr")
	err := d.Write(file, "0\n")
	if text, err2 := os.ReadFile(file); errors.Join(err, err2) != nil || string(text) != "0\n" {
		t.Errorf("a file without a store has %q, %v", text, errors.Join(err, err2))
	}
}

// Verifies that a program's own writes to sysfs come to the stores before they are
// done, each to its own file; that those of other files are the kernel's; and that many
// may be open.
func TestWrappedWrites(t *testing.T) {
	SkipWithoutFilter(t)
	tree, d := machine(t, fpgatree.NewN3000())
	port, fme := registers(t, tree)
	d.OnWrite(func(file, text string) (unix.Errno, bool) {
		return unix.EPERM, strings.HasSuffix(file, "/ltr") && text == "0x2\n"
	})
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("...."), 0o600); err != nil {
		t.Fatal(err)
	}
	files := []string{
		filepath.Join(port, "errors"), plain, filepath.Join(fme, "catfatal_errors"), filepath.Join(fme, "fme_errors"),
		filepath.Join(port, "../ltr"), filepath.Join(port, "../power_state"),
	}
	for range stores { // the last of which the kernel opens
		files = append(files, filepath.Join(fme, "pcie0_errors"))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, append([]string{"0x2\n"}, files...)...)
	cmd.Env = append(os.Environ(), childEnv+"=write")
	if err := d.Wrap(cmd); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	failed := func(file string, errno unix.Errno) string {
		return (&fs.PathError{Op: "write", Path: file, Err: errno}).Error()
	}
	want := []string{
		`errors: "0x0\n"`, `plain: "0x2\n"`, failed(files[2], unix.EIO), `fme_errors: "0x0\n"`, failed(files[4], unix.EPERM), `power_state: "0x2\n"`,
		`pcie0_errors: "0x0\n"`, failed(files[6], unix.EINVAL), // cleared already
	}
	if got := strings.Split(string(out), "\n"); len(got) < len(want) || strings.Join(got[:len(want)], "\n") != strings.Join(want, "\n") {
		t.Errorf("it said\n%s\nwant\n%s", out, strings.Join(want, "\n"))
	}
}

// Verifies the older driver's way to clear registers: a file beside them.
func TestClear(t *testing.T) {
	tree, d := machine(t, fpgatree.NewArria10())
	at := tree.Machine().Cards[0].Address
	for of, dir := range map[string]string{"port0": "errors", "fme": "errors/fme-errors"} {
		at, err := tree.Find(at, of)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []string{"errors", "first_error"} {
			if err := tree.SetFile(filepath.Join(at, dir, r), "0x2\n"); err != nil {
				t.Fatal(err)
			}
		}
		dir = filepath.Join(tree.Root, at, dir)
		err, err2 := d.Write(filepath.Join(dir, "errors"), "0x2"), d.Write(filepath.Join(dir, "clear"), "0x3")
		if !errors.Is(err, unix.EIO) || !errors.Is(err2, unix.EBUSY) {
			t.Errorf("%s: %v, %v", of, err, err2)
		}
		if err := d.Write(filepath.Join(dir, "clear"), "0x2\n"); err != nil {
			t.Errorf("%s: %v", of, err)
		}
		for _, r := range []string{"errors", "first_error"} {
			if text, err := os.ReadFile(filepath.Join(dir, r)); err != nil || string(text) != "0x0\n" {
				t.Errorf("%s: %s is %q, %v", of, r, text, err)
			}
		}
	}
}
