package alveo

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// xclbin is a container of XRT's.
type xclbin struct {
	vbnv, uuid string
	time       uint64
	interfaces []string
}

// bytes returns the content of the file.
func (x xclbin) bytes() []byte {
	return fpgatree.Xclbin{VBNV: x.vbnv, Time: x.time, UUID: x.uuid, Interfaces: x.interfaces}.Bytes()
}

// open writes the file and opens it.
func (x xclbin) open(t testing.TB) *bitstream.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kernel.xclbin")
	fpgatest.OK(t, os.WriteFile(path, x.bytes(), 0o600))
	f, err := bitstream.Open(path)
	fpgatest.OK(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}
