package fpgatree

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// Xclbin is a container of XRT's as tests need it: what it is for, and a section that
// stands for the bitstream.
type Xclbin struct {
	// VBNV is the platform that it was built for, in 63 bytes at most, and Time that of
	// the platform's shell.
	VBNV string
	Time uint64
	// UUID is its own, with dashes or without. What is no UUID is written as zeros.
	UUID string
	// Interfaces are the shell's that it needs, in 32 hexadecimal digits each.
	Interfaces []string
}

// Places in struct axlf, and sizes, of XRT's xclbin.h.
const (
	axlfLength, axlfTime, axlfMode, axlfVBNV, axlfUUID, axlfSections, axlfSize = 304, 320, 332, 352, 416, 448, 456
	axlfSection                                                                = 40
)

// uuid are the bytes of an ID.
func uuid(text string) [16]byte {
	var id [16]byte
	if b, err := hex.DecodeString(strings.ReplaceAll(text, "-", "")); err == nil {
		copy(id[:], b)
	}
	return id
}

// XclbinUUID is the UUID of an xclbin in the form that xocl has in xclbinuuid; empty for
// what is too short for one.
func XclbinUUID(file []byte) string {
	if len(file) < axlfSize {
		return ""
	}
	id := hex.EncodeToString(file[axlfUUID : axlfUUID+16])
	return strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:]}, "-")
}

// Bytes are the file's.
func (x Xclbin) Bytes() []byte {
	le := binary.LittleEndian
	type section struct {
		kind    uint32
		content []byte
	}
	parts := []section{{0, bytes.Repeat([]byte{0xaa, 0x99}, 500)}}
	if len(x.Interfaces) > 0 {
		parts = append(parts, section{20, partition(x.Interfaces)})
	}
	b := make([]byte, axlfSize+axlfSection*len(parts))
	copy(b, "xclbin2\x00")
	le.PutUint64(b[axlfTime:], x.Time)
	le.PutUint16(b[axlfMode:], 1)
	copy(b[axlfVBNV:axlfVBNV+63], x.VBNV)
	id := uuid(x.UUID)
	copy(b[axlfUUID:], id[:])
	le.PutUint32(b[axlfSections:], uint32(len(parts)))
	at := axlfSize
	for _, p := range parts {
		le.PutUint32(b[at:], p.kind)
		le.PutUint64(b[at+24:], uint64(len(b)))
		le.PutUint64(b[at+32:], uint64(len(p.content)))
		b = append(b, p.content...)
		at += axlfSection
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
