package alveo

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
)

// xclbin is a container of XRT's as tests need it: what it is for, and a section that
// stands for the bitstream.
type xclbin struct {
	vbnv, uuid string
	time       uint64
	interfaces []string
}

// Places in struct axlf, of XRT's xclbin.h.
const (
	axlfLength, axlfTime, axlfMode, axlfVBNV, axlfUUID, axlfSections, axlfSize = 304, 320, 332, 352, 416, 448, 456
	sectionSize                                                                = 40
)

func id(t testing.TB, text string) bitstream.UUID {
	t.Helper()
	u, err := bitstream.ParseUUID(text)
	ok(t, err)
	return u
}

// bytes are the file's.
func (x xclbin) bytes(t testing.TB) []byte {
	t.Helper()
	le := binary.LittleEndian
	parts := map[uint32][]byte{0: bytes.Repeat([]byte{0xaa, 0x99}, 500)}
	if len(x.interfaces) > 0 {
		parts[20] = partition(x.interfaces)
	}
	b := make([]byte, axlfSize+sectionSize*len(parts))
	copy(b, "xclbin2\x00")
	le.PutUint64(b[axlfTime:], x.time)
	le.PutUint16(b[axlfMode:], 1)
	copy(b[axlfVBNV:axlfVBNV+63], x.vbnv)
	u := id(t, x.uuid)
	copy(b[axlfUUID:], u[:])
	le.PutUint32(b[axlfSections:], uint32(len(parts)))
	at := axlfSize
	for kind, content := range parts {
		le.PutUint32(b[at:], kind)
		le.PutUint64(b[at+24:], uint64(len(b)))
		le.PutUint64(b[at+32:], uint64(len(content)))
		b = append(b, content...)
		at += sectionSize
	}
	le.PutUint64(b[axlfLength:], uint64(len(b)))
	return b
}

// partition is a device tree with a node for each interface.
func partition(interfaces []string) []byte {
	const name = "interface_uuid\x00"
	var tokens []byte
	be := binary.BigEndian
	text := func(s string) {
		tokens = append(tokens, s...)
		tokens = append(tokens, make([]byte, 1+(3-len(s)%4))...)
	}
	begin := func(node string) {
		tokens = be.AppendUint32(tokens, 1)
		text(node)
	}
	begin("")
	begin("interfaces")
	for _, i := range interfaces {
		begin("@" + i[:1])
		tokens = be.AppendUint32(tokens, 3)
		tokens = be.AppendUint32(tokens, uint32(len(i)+1))
		tokens = be.AppendUint32(tokens, 0)
		text(i)
		tokens = be.AppendUint32(tokens, 2)
	}
	for _, end := range []uint32{2, 2, 9} {
		tokens = be.AppendUint32(tokens, end)
	}
	var b []byte
	for _, n := range []int{0xd00dfeed, 56 + len(tokens) + len(name), 56, 56 + len(tokens), 40, 17, 16, 0, len(name), len(tokens), 0, 0, 0, 0} {
		b = be.AppendUint32(b, uint32(n))
	}
	return append(append(b, tokens...), name...)
}

// open writes the file and opens it.
func (x xclbin) open(t testing.TB) *bitstream.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kernel.xclbin")
	ok(t, os.WriteFile(path, x.bytes(t), 0o600))
	f, err := bitstream.Open(path)
	ok(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}
