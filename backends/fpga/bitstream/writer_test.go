package bitstream

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The writers here are made from the formats' descriptions, not from the reader:
// numbers, structs with their padding, and encoding/binary.

const (
	interfaceText   = "9926ab6d-6c92-5a68-aabc-a7d84c545738"
	acceleratorText = "d8424dc4-a4a3-c413-f89e-433683f9040b"
)

// green returns a .gbs around metadata and a payload.
func green(metadata string, payload []byte) []byte {
	var b bytes.Buffer
	for _, v := range []any{uint64(0x414750466e6f6558), uint64(0x31303076534247b7), uint32(len(metadata)), []byte(metadata), payload} {
		put(&b, binary.LittleEndian, v)
	}
	return b.Bytes()
}

func put(b *bytes.Buffer, order binary.ByteOrder, v any) {
	if err := binary.Write(b, order, v); err != nil {
		panic(err)
	}
}

// metadata returns what a .gbs of Intel's stack has, with changes to its text.
func metadata(changes ...string) string {
	const whole = `{"version": 112, "platform-name": "PAC", "afu-image": {"clock-frequency-high": 312, "clock-frequency-low": 156.5,
 "power": 50, "interface-uuid": "` + interfaceText + `", "magic-no": 488605312, "accelerator-clusters":
 [{"total-contexts": 1, "name": "nlb3", "accelerator-type-uuid": "` + acceleratorText + `"}]}}`
	return strings.NewReplacer(changes...).Replace(whole)
}

// signature returns block 0 and block 1 before signed bytes.
func signature(content, action byte, signed []byte) []byte {
	var b bytes.Buffer
	for _, v := range []any{
		uint32(0xb6eafd19), uint32(len(signed)), content, action, [6]byte{}, [32]byte{1}, [48]byte{2}, [32]byte{},
		uint32(0xf27f28d7), [892]byte{3}, signed,
	} {
		put(&b, binary.LittleEndian, v)
	}
	return b.Bytes()
}

// cHeader is struct axlf without its sections, cSection struct axlf_section_header.
type (
	cHeader struct {
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
	cSection struct {
		Kind         uint32
		Name         [16]byte
		_            uint32
		Offset, Size uint64
	}
	part struct {
		kind uint32
		name string
		data []byte
	}
)

// header returns the header of a container for a U250.
func header() cHeader {
	h := cHeader{
		Magic: [8]byte([]byte("xclbin2\x00")), SignatureLength: -1, TimeStamp: 1_650_000_000, ROMTimeStamp: 0,
		Patch: 204, Major: 2, Minor: 16, Mode: 1, Interface: [16]byte{0xab, 1}, UUID: [16]byte{0xcd, 15: 2},
	}
	copy(h.VBNV[:], "xilinx_u250_gen3x16_xdma_shell_4_1")
	return h
}

// container returns an .xclbin: each part at a multiple of eight, and after them the
// copy of the metadata that xclbinutil writes.
func container(h cHeader, parts ...part) []byte {
	h.NumSections = uint32(len(parts))
	at := uint64(binary.Size(h) + len(parts)*binary.Size(cSection{}))
	var table, data bytes.Buffer
	for _, p := range parts {
		pad := make([]byte, (8-at%8)%8)
		data.Write(pad)
		at += uint64(len(pad))
		s := cSection{Kind: p.kind, Offset: at, Size: uint64(len(p.data))}
		copy(s.Name[:], p.name)
		put(&table, binary.LittleEndian, s)
		data.Write(p.data)
		at += uint64(len(p.data))
	}
	data.WriteString("XCLBIN_MIRROR_DATA_START{}XCLBIN_MIRROR_DATA_END")
	h.Length = uint64(binary.Size(h) + table.Len() + data.Len())
	var b bytes.Buffer
	put(&b, binary.LittleEndian, h)
	b.Write(table.Bytes())
	b.Write(data.Bytes())
	return b.Bytes()
}

// usual returns the parts of a container for an Alveo card.
func usual() []part {
	return []part{
		{0, "ocl", bytes.Repeat([]byte{0xaa, 0x99, 0x55, 0x66}, 25)},
		{2, "", []byte("<project/>")},
		{8, "ip_layout", make([]byte, 84)},
		{20, "", deviceTree([]string{strings.ReplaceAll(interfaceText, "-", "")})},
		{14, "", []byte(`{"build_metadata": {}}`)},
	}
}

// node is one of a device tree.
type node struct {
	name  string
	text  map[string]string
	nodes []node
}

// deviceTree returns what xclbinutil makes of the interfaces, and decoys at other places
// and by similar names.
func deviceTree(interfaces []string) []byte {
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

// file writes a file of a name, and is its path.
func file(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// open opens what must be a bitstream.
func open(t testing.TB, path string) *File {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func mustUUID(t testing.TB, text string) UUID {
	t.Helper()
	id, err := ParseUUID(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// parsed returns what content in memory is.
func parsed(name string, content []byte) (*File, error) {
	return parse(name, bytes.NewReader(content), int64(len(content)))
}

// quoted returns text as JSON has it.
func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(b)
}
