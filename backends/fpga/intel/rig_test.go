package intel

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

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
	d.write = clearing
	return rig{tree, device, d}
}

// crypto is the ID of an accelerator function that no machine has at first.
const crypto = "38d782e3b6125343b934243307530a83"

// file returns a .gbs for an interface, which the device accepts.
func (r rig) file(t *testing.T, interfaceID, afu string) (*bitstream.File, []byte) {
	t.Helper()
	b := fpgadevice.Bitstream{Interface: interfaceID, AFU: afu, Payload: bytes.Repeat([]byte(interfaceID[:7]+afu[:6]), 5000)}
	r.device.Know(b)
	path := filepath.Join(t.TempDir(), "crypto.gbs")
	fpgatest.OK(t, os.WriteFile(path, b.GBS(), 0o600))
	f, err := bitstream.Open(path)
	fpgatest.OK(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f, b.Payload
}

// clearing returns the kernel's side of the files that clear registers, in a tree: the value
// that the register has clears it, and first_error beside it; another is refused, with
// EINVAL or, by the older driver, EBUSY.
func clearing(path, text string) error {
	register, refused := path, unix.EINVAL
	if strings.Contains(path, "intel-fpga-") && filepath.Base(path) != "clear" && !strings.Contains(path, "pcie") {
		return &os.PathError{Op: "open", Path: path, Err: unix.EACCES} // it can only be read
	}
	if filepath.Base(path) == "clear" {
		register, refused = filepath.Join(filepath.Dir(path), "errors"), unix.EBUSY
	}
	is, err := os.ReadFile(register)
	if err != nil {
		return err
	}
	if strings.Trim(string(is), "\x00\n ") != text {
		return &os.PathError{Op: "write", Path: path, Err: refused}
	}
	if first := filepath.Join(filepath.Dir(register), "first_error"); !strings.Contains(register, "pcie") {
		if _, err := os.Stat(first); err == nil {
			if err := os.WriteFile(first, []byte("0x0\n"), 0o600); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(register, []byte("0x0\n"), 0o600)
}
