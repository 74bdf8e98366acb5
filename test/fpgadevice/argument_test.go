package fpgadevice

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/fpga/ioctl"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/sysroot"
)

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

const crypto = "11111111222233334444555566667777"

// page is memory behind which there is none.
type page struct{ all []byte }

func newPage(t testing.TB) page {
	t.Helper()
	size := os.Getpagesize()
	all, err := unix.Mmap(-1, 0, 2*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(all) })
	if err := unix.Mprotect(all[size:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return page{all[:size:size]}
}

// put puts bytes at the page's end, and is where they are.
func (p page) put(b []byte) unsafe.Pointer {
	at := p.all[len(p.all)-len(b):]
	copy(at, b)
	return unsafe.Pointer(unsafe.SliceData(at))
}

// request is the argument of a programming; extra follows it.
func request(size, flags, port, length uint32, address uint64, extra ...byte) []byte {
	var b []byte
	for _, n := range []uint32{size, flags, port, length} {
		b = binary.NativeEndian.AppendUint32(b, n)
	}
	return append(binary.NativeEndian.AppendUint64(b, address), extra...)
}

// Verifies what the drivers refuse, and with which number.
func TestArguments(t *testing.T) {
	m := fpgatree.NewN3000()
	m.Cards = append(m.Cards, fpgatree.NewArria10().Cards...)
	m.Cards[1].Address.Bus = 0x15
	tree, err := fpgatree.Write(sysroot.TempDir(t), m)
	if err != nil {
		t.Fatal(err)
	}
	d := New(t, tree)
	payload := []byte("seven77")
	d.Know(Bitstream{Interface: m.Cards[0].Interface, AFU: crypto, Payload: payload}, Bitstream{Interface: m.Cards[1].Interface, AFU: crypto, Payload: []byte("other")})
	data, arguments := newPage(t), newPage(t)
	address := uint64(uintptr(data.put(payload)))
	status := make([]byte, 8)
	for name, c := range map[string]struct {
		node     string
		request  uint32
		argument []byte
		want     unix.Errno
	}{
		"fine":                        {"dfl-fme.0", 0xb680, request(24, 0, 0, 7, address), 0},
		"more than is known":          {"dfl-fme.0", 0xb680, request(32, 0, 0, 7, address, status...), 0},
		"version":                     {"dfl-fme.0", 0xb600, nil, 0},
		"extension":                   {"dfl-port.0", 0xb601, nil, 0},
		"too small":                   {"dfl-fme.0", 0xb680, request(23, 0, 0, 7, address), unix.EINVAL},
		"too small for the older":     {"intel-fpga-fme.0", 0xb580, request(24, 0, 0, 7, address, status...), unix.EINVAL},
		"flags":                       {"dfl-fme.0", 0xb680, request(24, 1, 0, 7, address), unix.EINVAL},
		"port":                        {"dfl-fme.0", 0xb680, request(24, 0, 1, 7, address), unix.EINVAL},
		"port -1":                     {"dfl-fme.0", 0xb680, request(24, 0, math.MaxUint32, 7, address), unix.EINVAL},
		"no payload":                  {"dfl-fme.0", 0xb680, request(24, 0, 0, 0, address), unix.ENOMEM},
		"all of memory":               {"dfl-fme.0", 0xb680, request(24, 0, 0, math.MaxUint32, address), unix.ENOMEM},
		"payload that ends early":     {"dfl-fme.0", 0xb680, request(24, 0, 0, 8, address), unix.EFAULT},
		"payload at 0":                {"dfl-fme.0", 0xb680, request(24, 0, 0, 8, 0), unix.EFAULT},
		"payload in the kernel":       {"dfl-fme.0", 0xb680, request(24, 0, 0, 8, 1<<63), unix.EFAULT},
		"payload over the end":        {"dfl-fme.0", 0xb680, request(24, 0, 0, 8, math.MaxUint64-3), unix.EFAULT},
		"argument that ends early":    {"dfl-fme.0", 0xb680, request(24, 0, 0, 7, address)[:23], unix.EFAULT},
		"no argument":                 {"dfl-fme.0", 0xb680, nil, unix.EFAULT},
		"older without status":        {"intel-fpga-fme.0", 0xb580, request(32, 0, 0, 7, address), unix.EFAULT},
		"of the other driver":         {"dfl-fme.0", 0xb580, request(32, 0, 0, 7, address, status...), unix.EINVAL},
		"of the other node":           {"dfl-port.0", 0xb680, request(24, 0, 0, 7, address), unix.EINVAL},
		"reset of an engine":          {"dfl-fme.0", 0xb640, nil, unix.EINVAL},
		"reset with an argument":      {"dfl-port.0", 0xb640, []byte{0}, unix.EINVAL},
		"information that is small":   {"dfl-port.0", 0xb641, request(15, 0, 0, 0, 0), unix.EINVAL},
		"information that ends early": {"dfl-port.0", 0xb641, request(16, 0, 0, 0, 0)[:15], unix.EFAULT},
		"with a size in the number":   {"dfl-fme.0", 0x4018b680, request(24, 0, 0, 7, address), unix.EINVAL},
		"unknown":                     {"dfl-fme.0", 0xb6ff, nil, unix.EINVAL},
	} {
		calls := len(d.Calls())
		var at unsafe.Pointer
		if c.argument != nil {
			at = arguments.put(c.argument)
		}
		err := open(t, tree, d, c.node).Ioctl(c.request, at)
		if c.want == 0 && err != nil || c.want != 0 && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if c.want != 0 && len(d.Calls()) != calls {
			t.Errorf("%s: it came to the card", name)
		}
	}
}
