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

// Bytes are the file's.
func (x Xclbin) Bytes() []byte {
	h := XclbinHeader{Magic: [8]byte([]byte("xclbin2\x00")), ROMTimeStamp: x.Time, Mode: 1}
	copy(h.VBNV[:63], x.VBNV)
	if id, err := hex.DecodeString(strings.ReplaceAll(x.UUID, "-", "")); err == nil {
		copy(h.UUID[:], id)
	}
	sections := []XclbinSection{{Data: bytes.Repeat([]byte{0xaa, 0x99}, 500)}}
	if len(x.Interfaces) > 0 {
		sections = append(sections, XclbinSection{Kind: 20, Data: XclbinPartition(x.Interfaces)})
	}
	return XclbinFile(h, sections...)
}

// XclbinHeader is struct axlf of XRT's xclbin.h without its sections, and sectionHeader struct
// axlf_section_header.
type (
	XclbinHeader struct {
		Magic           [8]byte
		SignatureLength int32
		Reserved        [28]byte
		KeyBlock        [256]byte
		UniqueID        uint64
		Length          uint64
		TimeStamp       uint64
		ROMTimeStamp    uint64
		Patch           uint16
		Major, Minor    uint8
		Mode            uint16
		ActionMask      uint16
		Interface       [16]byte
		VBNV            [64]byte
		UUID            [16]byte
		DebugBin        [16]byte
		NumSections     uint32
		_               uint32
	}
	sectionHeader struct {
		Kind         uint32
		Name         [16]byte
		_            uint32
		Offset, Size uint64
	}
	// XclbinSection is a section with its content.
	XclbinSection struct {
		Kind uint32
		Name string
		Data []byte
	}
)

// XclbinFile is an .xclbin: each part at a multiple of eight, and after them the
// copy of the metadata that xclbinutil writes.
func XclbinFile(h XclbinHeader, sections ...XclbinSection) []byte {
	h.NumSections = uint32(len(sections))
	at := uint64(binary.Size(h) + len(sections)*binary.Size(sectionHeader{}))
	var table, data bytes.Buffer
	for _, p := range sections {
		pad := make([]byte, (8-at%8)%8)
		data.Write(pad)
		at += uint64(len(pad))
		s := sectionHeader{Kind: p.Kind, Offset: at, Size: uint64(len(p.Data))}
		copy(s.Name[:], p.Name)
		put(&table, binary.LittleEndian, s)
		data.Write(p.Data)
		at += uint64(len(p.Data))
	}
	data.WriteString("XCLBIN_MIRROR_DATA_START{}XCLBIN_MIRROR_DATA_END")
	h.Length = uint64(binary.Size(h) + table.Len() + data.Len())
	var b bytes.Buffer
	put(&b, binary.LittleEndian, h)
	b.Write(table.Bytes())
	b.Write(data.Bytes())
	return b.Bytes()
}

// put writes a value of a fixed size, for which there is no error.
func put(b *bytes.Buffer, order binary.ByteOrder, v any) { _ = binary.Write(b, order, v) }

// node is one of a device tree.
type node struct {
	name  string
	text  map[string]string
	nodes []node
}

// XclbinPartition is the device tree that xclbinutil makes of the interfaces, and decoys at
// other places and by similar names.
func XclbinPartition(interfaces []string) []byte {
	decoy := map[string]string{"interface_uuid": strings.Repeat("d", 32)}
	below := node{name: "interfaces", text: decoy}
	for _, id := range interfaces {
		below.nodes = append(below.nodes, node{name: "@" + id[:1], text: map[string]string{
			"interface_uuid": id, "interface_uuid_old": strings.Repeat("c", 32), "uuid": strings.Repeat("b", 32),
		}, nodes: []node{{name: "deeper", text: decoy}}})
	}
	return flatten(node{nodes: []node{
		{name: "addressable_endpoints", nodes: []node{{name: "ep", text: map[string]string{"interface_uuid": strings.Repeat("e", 32), "reg": "1234"}}}},
		below,
		{name: "partition_info", text: map[string]string{"__INFO": "", "logic_uuid": strings.Repeat("f", 32)}},
	}})
}

func flatten(root node) []byte {
	var tokens, names bytes.Buffer
	offsets := map[string]uint32{}
	text := func(s string) {
		tokens.WriteString(s)
		tokens.Write(make([]byte, (4-tokens.Len()%4)%4))
	}
	number := func(n uint32) { put(&tokens, binary.BigEndian, n) }
	var write func(n node)
	write = func(n node) {
		number(1)
		text(n.name + "\x00")
		for name, value := range n.text {
			at, ok := offsets[name]
			if !ok {
				at = uint32(names.Len())
				offsets[name] = at
				names.WriteString(name + "\x00")
			}
			number(3)
			number(uint32(len(value) + 1))
			number(at)
			text(value + "\x00")
			number(4)
		}
		for _, below := range n.nodes {
			write(below)
		}
		number(2)
	}
	write(root)
	number(9)
	var b bytes.Buffer
	put(&b, binary.BigEndian, []uint32{
		0xd00dfeed, uint32(56 + tokens.Len() + names.Len()), 56, uint32(56 + tokens.Len()), 40, 17, 16, 0,
		uint32(names.Len()), uint32(tokens.Len()), 0, 0, 0, 0,
	})
	b.Write(tokens.Bytes())
	b.Write(names.Bytes())
	return b.Bytes()
}
