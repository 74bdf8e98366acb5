package bitstream

import (
	"bytes"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/fpgatree"
)

// The reader returns the values of a .gbs file, of which the metadata has more than it knows.
func TestGBS(t *testing.T) {
	const second = `, {"x": [{}], "name": "äß\"", "total-contexts": 3, "accelerator-type-uuid": "D8424DC4A4A3C413F89E433683F9040C\u0000"}]`
	text := metadata("]}}", second+`}, "unknown": {"name": null, "list": [1, [2], {"a": true}]}}`) + "\n\x00"
	for signed, payload := range map[bool][]byte{false: []byte("payload"), true: signature(2, 0, []byte("payload"))} {
		f, err := parsed("x.gbs", green(text, payload))
		ok(t, err)
		accelerators := []Accelerator{
			{ID: mustUUID(t, acceleratorText), Name: "nlb3", Contexts: 1},
			{ID: mustUUID(t, "d8424dc4-a4a3-c413-f89e-433683f9040c"), Name: `äß"`, Contexts: 3},
		}
		if f.Kind != GBS || f.InterfaceID != mustUUID(t, interfaceText) || !slices.Equal(f.Accelerators, accelerators) ||
			*f.Green != (Green{Version: 112, Platform: "PAC", PowerW: 50, ClockHighMHz: 312, ClockLowMHz: 156.5, Signed: signed}) {
			t.Errorf("%+v %+v", f, f.Green)
		}
		got, err := io.ReadAll(f.Reader())
		if err != nil || !bytes.Equal(got, payload) || f.Payload != (Span{int64(20 + len(text)), int64(len(payload))}) || string(f.Metadata) != text {
			t.Errorf("the payload is %+v, %v", f.Payload, err)
		}
	}
	f, err := parsed("x.gbs", green(metadata("156.5", `"auto-315"`, `"power": 50`, `"power": 0`), []byte("payload")))
	if err != nil || f.Green.ClockLowMHz != 0 || f.Green.PowerW != 0 {
		t.Errorf("with a clock that is an option of the tools, and no power: %+v, %v", f.Green, err)
	}
}

// The reader returns the values of an .xclbin file. It is for an interface only if it needs no
// other.
func TestXclbin(t *testing.T) {
	for _, ids := range [][]UUID{nil, {{1}}, {{1}, {2}}} {
		var texts []string
		for _, id := range ids {
			texts = append(texts, id.Hex())
		}
		parts := []part{{23, "kernel", []byte("k")}, {20, "", fpgatree.XclbinPartition(texts)}, {23, "", nil}, {18, "pdi", []byte("content")}, {2, "", []byte("<xml/>")}}
		h := header()
		h.ROMTimeStamp = 7
		whole := container(h, parts...)
		f, err := parsed("x.xclbin", whole)
		ok(t, err)
		c := f.Container
		if f.Kind != Xclbin || f.UUID != h.UUID || f.VBNV != "xilinx_u250_gen3x16_xdma_shell_4_1" || f.Payload != (Span{0, int64(len(whole))}) || f.Green != nil {
			t.Errorf("%+v", f)
		}
		if c.HeaderID != h.Interface || c.Mode != 1 || c.ROMTime != 7 || c.Created.Unix() != 1_650_000_000 || c.Version != "2.16.204" || !slices.Equal(c.Interfaces, ids) {
			t.Errorf("%+v", c)
		}
		if only := len(ids) == 1; f.InterfaceID.IsZero() == only || only && f.InterfaceID != ids[0] {
			t.Errorf("the interface is %s of %v", f.InterfaceID, ids)
		}
		if string(whole[c.Bitstream.Offset:][:c.Bitstream.Size]) != "content" || len(c.Sections) != len(parts) {
			t.Fatalf("the bitstream is %+v; %d sections", c.Bitstream, len(c.Sections))
		}
		for i, s := range c.Sections {
			if uint32(s.Kind) != parts[i].kind || s.Name != parts[i].name || !bytes.Equal(whole[s.Offset:][:s.Size], parts[i].data) {
				t.Errorf("section %d is %+v, want %+v", i, s, parts[i])
			}
		}
		if xml, err := f.Section(EmbeddedMetadata, 6); err != nil || string(xml) != "<xml/>" {
			t.Errorf("the metadata is %q, %v", xml, err)
		}
	}
}

// A UUID has 32 digits, and its dashes in four places or nowhere.
func TestParseUUID(t *testing.T) {
	want := UUID{0x99, 0x26, 0xab, 0x6d, 0x6c, 0x92, 0x5a, 0x68, 0xaa, 0xbc, 0xa7, 0xd8, 0x4c, 0x54, 0x57, 0x38}
	for _, text := range []string{interfaceText, strings.ToUpper(interfaceText), "9926ab6d6c925a68aabca7d84c545738", interfaceText + "\x00\x00 \n"} {
		if id, err := ParseUUID(text); err != nil || id != want || id.String() != interfaceText || id.Hex() != strings.ReplaceAll(interfaceText, "-", "") {
			t.Errorf("%q is %s, %v", text, id, err)
		}
	}
	for _, dash := range []int{8, 13, 18, 23} {
		if id, err := ParseUUID(interfaceText[:dash] + "0" + interfaceText[dash+1:]); err == nil {
			t.Errorf("without the dash %d it is %s", dash, id)
		}
	}
	for _, text := range []string{"", "\x00", interfaceText + "0", interfaceText[1:], " " + interfaceText, "{" + interfaceText + "}", strings.Repeat("-", 36), strings.Repeat("g", 32)} {
		if id, err := ParseUUID(text); err == nil || !strings.Contains(err.Error(), "32 hexadecimal digits were expected") {
			t.Errorf("%q is %s, %v", text, id, err)
		}
	}
}

// zeros is a file of any size, of which only the beginning is not zero; it counts
// what is read.
type zeros struct {
	head []byte
	read int64
}

func (z *zeros) ReadAt(b []byte, at int64) (int, error) {
	clear(b)
	if at < int64(len(z.head)) {
		copy(b, z.head[at:])
	}
	z.read += int64(len(b))
	return len(b), nil
}

// Absurd lengths in headers cost neither memory nor reads, whatever the file's size, which they
// may even fit.
func TestAbsurdLengths(t *testing.T) {
	section := func(kind uint32, size uint64) []byte {
		h := header()
		b := container(h, part{kind, "", nil}, part{0, "", nil})
		copy(b[304:], []byte{0, 0, 0, 0x40, 0, 0, 0, 0}) // 1 GiB
		for i := range 8 {
			b[456+24+i], b[456+32+i] = byte(uint64(4096)>>(8*i)), byte(size>>(8*i))
		}
		return b
	}
	count := func(n ...byte) []byte {
		b := section(20, 0)
		copy(b[448:], n)
		return b
	}
	length := func(n ...byte) []byte {
		b := green(metadata(), []byte{1})
		copy(b[16:], n)
		return b
	}
	for name, c := range map[string]struct {
		head []byte
		want string
	}{
		"all metadata":           {length(0xff, 0xff, 0xff, 0xff), "4294967295 bytes, and 65536 are the most"},
		"a byte too much":        {length(1, 0, 1, 0), "65537 bytes, and 65536 are the most"},
		"all sections":           {count(0xff, 0xff, 0xff, 0xff), "4294967295 sections: 1 to 1024 were expected"},
		"a section too many":     {count(1, 4), "1025 sections"},
		"a huge device tree":     {section(20, 1<<29), "PARTITION_METADATA has 536870912 bytes, and 1048576 are the most"},
		"a section that wraps":   {section(20, 1<<64-4096), "PARTITION_METADATA has 18446744073709547520 bytes from byte 4096 on"},
		"a section beyond":       {section(7, 1<<30), "section of kind 7 has 1073741824 bytes from byte 4096 on, and the container has 1073741824"},
		"a bitstream of the lot": {section(0, 1<<29), "2 sections BITSTREAM"},
	} {
		z := &zeros{head: c.head}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := parse("x", z, Limit)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 256<<10 || z.read > 128<<10 {
			t.Errorf("%s: %d bytes of memory, %d bytes read", name, used, z.read)
		}
	}
	// A raw file of the largest size is accepted without being read.
	z := &zeros{}
	if f, err := parse("x.rbf", z, Limit); err != nil || f.Kind != Raw || f.Payload.Size != Limit || z.read > 100 {
		t.Errorf("%+v, %v, %d bytes read", f, err, z.read)
	}
	if _, err := parse("x.rbf", z, Limit+1); err == nil || !strings.Contains(err.Error(), "1073741825 bytes, and a bitstream has 1073741824 at most") {
		t.Error(err)
	}
}

// For any bytes, the reader returns without a panic, and what it finds is within the file.
func FuzzGBS(f *testing.F) {
	f.Add(green(metadata(), []byte("payload")))
	f.Add(green(metadata(), signature(2, 0, []byte("payload"))))
	f.Add(green(metadata(), signature(1, 1, nil)))
	f.Add(green(`{"a":{"a":[[[]]]}}`, []byte("p")))
	f.Fuzz(func(t *testing.T, content []byte) { checkAny(t, content) })
}

// The same for containers.
func FuzzXclbin(f *testing.F) {
	f.Add(container(header(), usual()...))
	f.Add(container(header(), part{20, "", fpgatree.XclbinPartition(nil)}))
	f.Fuzz(func(t *testing.T, content []byte) { checkAny(t, content) })
}

// The same for a container's device tree, which the fuzzer would not reach.
func FuzzDeviceTree(f *testing.F) {
	f.Add(fpgatree.XclbinPartition([]string{strings.Repeat("1", 32), strings.Repeat("2", 32)}))
	f.Fuzz(func(t *testing.T, blob []byte) {
		checkAny(t, container(header(), part{20, "", blob}, part{0, "", []byte("x")}))
	})
}

func checkAny(t *testing.T, content []byte) {
	file, err := parsed("x", content)
	if err != nil {
		if len(err.Error()) > 1000 {
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
		return
	}
	within := func(s Span) bool {
		return s.Offset >= 0 && s.Size >= 0 && s.Offset <= int64(len(content)) && s.Size <= int64(len(content))-s.Offset
	}
	if !within(file.Payload) || file.Payload.Size == 0 {
		t.Errorf("the payload is %+v of %d", file.Payload, len(content))
	}
	switch file.Kind {
	case Raw:
		if file.Payload != (Span{0, int64(len(content))}) || file.Green != nil || file.Container != nil {
			t.Errorf("%+v", file)
		}
	case GBS:
		if file.InterfaceID.IsZero() || len(file.Accelerators) == 0 || file.Accelerators[0].ID.IsZero() || file.Container != nil {
			t.Errorf("%+v", file)
		}
	case Xclbin:
		used := make([]bool, len(content))
		for _, s := range file.Container.Sections {
			if !within(s.Span) || s.Size > 0 && s.Offset < 456 {
				t.Fatalf("%+v of %d", s, len(content))
			}
			for i := s.Offset; i < s.Offset+s.Size; i++ {
				if used[i] {
					t.Fatalf("byte %d is in two sections: %+v", i, file.Container.Sections)
				}
				used[i] = true
			}
		}
	}
}
