package bitstream

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/fpgatree"
)

// The writers here, and those of fpgatree, are made from the formats' descriptions, not from the
// reader: numbers, structs with their padding, and encoding/binary.

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

// part is a section of a container.
type part struct {
	kind uint32
	name string
	data []byte
}

// header returns the header of a container for a U250.
func header() fpgatree.XclbinHeader {
	h := fpgatree.XclbinHeader{
		Magic: [8]byte([]byte("xclbin2\x00")), SignatureLength: -1, TimeStamp: 1_650_000_000, ROMTimeStamp: 0,
		Patch: 204, Major: 2, Minor: 16, Mode: 1, Interface: [16]byte{0xab, 1}, UUID: [16]byte{0xcd, 15: 2},
	}
	copy(h.VBNV[:], "xilinx_u250_gen3x16_xdma_shell_4_1")
	return h
}

// container returns an .xclbin.
func container(h fpgatree.XclbinHeader, parts ...part) []byte {
	var sections []fpgatree.XclbinSection
	for _, p := range parts {
		sections = append(sections, fpgatree.XclbinSection{Kind: p.kind, Name: p.name, Data: p.data})
	}
	return fpgatree.XclbinFile(h, sections...)
}

// usual returns the parts of a container for an Alveo card.
func usual() []part {
	return []part{
		{0, "ocl", bytes.Repeat([]byte{0xaa, 0x99, 0x55, 0x66}, 25)},
		{2, "", []byte("<project/>")},
		{8, "ip_layout", make([]byte, 84)},
		{20, "", fpgatree.XclbinPartition([]string{strings.ReplaceAll(interfaceText, "-", "")})},
		{14, "", []byte(`{"build_metadata": {}}`)},
	}
}

// ok fails the test for an error.
func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// file writes a file of a name, and is its path.
func file(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	ok(t, os.WriteFile(path, content, 0o600))
	return path
}

// open opens what must be a bitstream.
func open(t testing.TB, path string) *File {
	t.Helper()
	f, err := Find(filepath.Split(path))
	ok(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func mustUUID(t testing.TB, text string) UUID {
	t.Helper()
	id, err := ParseUUID(text)
	ok(t, err)
	return id
}

// parsed returns what content in memory is.
func parsed(name string, content []byte) (*File, error) {
	return parse(name, bytes.NewReader(content), int64(len(content)))
}
