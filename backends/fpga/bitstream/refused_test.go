package bitstream

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/fpgatree"
)

// An invalid .gbs is an error with the reason and the expected value.
func TestGBSRefused(t *testing.T) {
	change := func(changes ...string) []byte { return green(metadata(changes...), []byte("payload")) }
	cluster := `{"total-contexts": 1, "name": "nlb3", "accelerator-type-uuid": "` + acceleratorText + `"}`
	badBlock := signature(2, 0, []byte("payload"))
	badBlock[128]++
	long := signature(2, 0, []byte("payload"))
	long[4]++
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"no payload":         {green(metadata(), nil), "the bitstream is missing"},
		"longer metadata":    {green(metadata(), []byte("p"))[:100], "cut off: its metadata needs"},
		"another version":    {append([]byte("XeonFPGA\xb7GBSv002"), change()[16:]...), `version that is not known ("002")`},
		"more than JSON":     {green(metadata()+`"`, []byte("p")), "follows the JSON"},
		"deep":               {green(strings.Repeat("[", 5000), []byte("p")), "nested more than 16"},
		"a field twice":      {change(`"power": 50`, `"power": 50, "power": 50`), `"power" is there twice`},
		"hidden twice":       {change(`"version": 112`, `"version": 112, "a": [{"b": 1, "b": 2}]`), `"b" is there twice`},
		"no image":           {change("afu-image", "AFU-image"), "no object afu-image"},
		"no interface":       {change("interface-uuid", "interface-id"), "afu-image.interface-uuid is missing"},
		"a short interface":  {change(interfaceText, interfaceText[:35]), "is no UUID: 32 hexadecimal digits were expected"},
		"zeros":              {change(interfaceText, strings.Repeat("0", 32)), "which stands for none"},
		"ones":               {change(acceleratorText, strings.Repeat("F", 32)), "accelerator-type-uuid is ffffffff-ffff-ffff-ffff-ffffffffffff, which stands for none"},
		"no clusters":        {change(cluster, ""), "a list of 1 to 64"},
		"65 clusters":        {change(cluster, strings.Repeat(cluster+",", 64)+cluster), "a list of 1 to 64"},
		"the same twice":     {change(cluster, cluster+","+strings.Replace(cluster, acceleratorText, strings.ToUpper(acceleratorText), 1)), "[1].accelerator-type-uuid " + acceleratorText + " is there twice"},
		"many contexts":      {change(`contexts": 1`, `contexts": 1e9`), "total-contexts is 1e9: a number from 0 to 65536"},
		"absurd power":       {change(`"power": 50`, `"power": 1e999`), "power is 1e999"},
		"a long name":        {change(`nlb3`, strings.Repeat("n", 513)), "at most 512 bytes"},
		"a name with a bell": {change(`nlb3`, `\u0007`), "can be printed"},
		"a bad signature":    {green(metadata(), badBlock), "its signature is damaged: the second block begins with 0xf27f28d8"},
		"a cut payload":      {green(metadata(), long), "8 bytes are signed, and 7 follow the signature"},
		"BMC firmware":       {green(metadata(), signature(1, 0, []byte("p"))), "an update of the board's controller (BMC): an accelerator function was expected"},
		"a key":              {green(metadata(), signature(2, 1, []byte("p"))), "the cancellation of a key of an accelerator function"},
	} {
		if _, err := parsed("x.gbs", c.content); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// An invalid .xclbin is an error with the reason and the expected value.
func TestXclbinRefused(t *testing.T) {
	// at overwrites numbers of 32 bits in a container; the first section header is
	// at 456, with its offset at 480 and its size at 488.
	at := func(offset int, numbers ...uint32) []byte {
		b := container(header(), usual()...)
		for i, n := range numbers {
			binary.LittleEndian.PutUint32(b[offset+4*i:], n)
		}
		return b
	}
	with := func(change func(*fpgatree.XclbinHeader)) []byte {
		h := header()
		change(&h)
		return container(h, usual()...)
	}
	tree := func(blob []byte) []byte { return container(header(), part{20, "", blob}) }
	whole := at(0)
	ids := make([]string, 65)
	for i := range ids {
		ids[i] = fmt.Sprintf("%032x", i+1)
	}
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"an old format":     {append([]byte("xclbin0\x00"), whole[8:]...), `not known ("xclbin0\x00"): an xclbin2 was expected`},
		"a byte longer":     {at(304, uint32(len(whole)+1)), "it is cut off: it has"},
		"4 GiB longer":      {at(304, uint32(len(whole)), 1), "it is cut off: it has"},
		"shorter than that": {at(304, 455), "the header alone has 456"},
		"cut by the header": {at(304, 700), "and the container has 700"},
		"a cut table":       {at(304, 500), "its table of 5 sections ends at byte 656, and it has 500"},
		"hw_emu":            {with(func(h *fpgatree.XclbinHeader) { h.Mode = 4 }), "emulation (hw_emu): the target hw was expected"},
		"mode 7":            {with(func(h *fpgatree.XclbinHeader) { h.Mode = 7 }), "its mode is 7, and 0 to 6 are known"},
		"no end":            {with(func(h *fpgatree.XclbinHeader) { copy(h.VBNV[:], strings.Repeat("x", 64)) }), "the name of its platform is"},
		"binary":            {with(func(h *fpgatree.XclbinHeader) { h.VBNV[0] = 7 }), "printable ASCII that ends with a zero byte was expected"},
		"no sections":       {container(header()), "it has 0 sections: 1 to 1024 were expected"},
		"section's name":    {at(460, 0x07070707), "the name of its section BITSTREAM is"},
		"in the header":     {at(480, 8), "its section BITSTREAM begins at byte 8, and the table of sections goes up to byte 656"},
		"in the table":      {at(480, 655), "begins at byte 655, and the table of sections goes up to byte 656"},
		"overlap":           {at(488, 101+4), "its section EMBEDDED_METADATA begins at byte 760, and its section BITSTREAM goes up to byte 761"},
		"the same place":    {at(456+40+24, 656), "begins at byte 656, and its section"},
		"beyond the end":    {at(488, 1<<20), "its section BITSTREAM has 1048576 bytes from byte 656 on"},
		"far beyond":        {at(480, 0, 1), "its section BITSTREAM has 100 bytes from byte 4294967296 on"},
		"two bitstreams":    {container(header(), part{0, "a", []byte("x")}, part{0, "b", []byte("y")}), "it has 2 sections BITSTREAM: one was expected"},
		"two partitions":    {container(header(), append(usual(), usual()[3])...), "it has 2 sections PARTITION_METADATA"},
		"no tree":           {tree([]byte("{}")), "PARTITION_METADATA: it is no flattened device tree"},
		"a cut tree":        {tree(fpgatree.XclbinPartition(nil)[:60]), "by its header it has"},
		"a short ID":        {tree(fpgatree.XclbinPartition([]string{"12"})), `an interface_uuid "12\x00" is no UUID`},
		"a zero ID":         {tree(fpgatree.XclbinPartition([]string{strings.Repeat("0", 32)})), "all zeros"},
		"65 interfaces":     {tree(fpgatree.XclbinPartition(ids)), "more than 64 interfaces"},
	} {
		if f, err := parsed("x.xclbin", c.content); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v, want %q", name, f, err, c.want)
		}
	}
}

// A device tree with any damaged byte is an error or is read as it is, and one whose blocks are
// inconsistent is refused.
func TestDeviceTreeRefused(t *testing.T) {
	whole := fpgatree.XclbinPartition([]string{strings.Repeat("a", 32)})
	if got, err := interfaces(whole); err != nil || len(got) != 1 || !strings.HasPrefix(got[0], "aaaa") {
		t.Errorf("%q, %v", got, err)
	}
	tokens := func(numbers ...uint32) []byte {
		b := fpgatree.XclbinPartition(nil)[:56]
		for _, n := range numbers {
			b = binary.BigEndian.AppendUint32(b, n)
		}
		for i, n := range []uint32{uint32(len(b)), 56, uint32(len(b)), 40, 17, 16, 0, 0, uint32(len(b)) - 56} {
			binary.BigEndian.PutUint32(b[4+4*i:], n)
		}
		return b
	}
	for name, c := range map[string]struct {
		blob []byte
		want string
	}{
		"no token":        {tokens(), "ends early"},
		"a strange token": {tokens(5), "token 0x5"},
		"ends too often":  {tokens(2), "more nodes end than begin"},
		"no end":          {tokens(1, 0, 9), "1 nodes have no end"},
		"an endless name": {tokens(1, 0x61616161), "a node's name has no end"},
		"a long property": {tokens(1, 0, 3, 0xffffffff, 0), "ends early"},
		"no such name":    {tokens(1, 0, 3, 0, 0), "a property's name is at byte 0 of 0"},
		"a long block":    {append(append([]byte{}, whole[:36]...), append([]byte{0xff, 0xff, 0xff, 0xff}, whole[40:]...)...), "a block has 4294967295 bytes from byte 56 on"},
		"a far block":     {append(append([]byte{}, whole[:8]...), append([]byte{0xff, 0xff, 0xff, 0xff}, whole[12:]...)...), "from byte 4294967295 on"},
	} {
		if got, err := interfaces(c.blob); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
	for n := range whole {
		if _, err := interfaces(whole[:n]); err == nil {
			t.Errorf("a tree of %d bytes of %d is whole", n, len(whole))
		}
	}
}

// A file's content defines its kind; its name can only contradict.
func TestKindByContent(t *testing.T) {
	gbs, xclbin, raw := green(metadata(), []byte("p")), container(header(), usual()...), []byte(strings.Repeat("\xff", 64)+"\x6a\x6a")
	for _, name := range []string{"x", "x.gbs", "x.xclbin", "x.rbf", "x.bin", "X.GBS"} {
		for want, content := range map[Kind][]byte{GBS: gbs, Xclbin: xclbin} {
			if f, err := parsed(name, content); err != nil || f.Kind != want {
				t.Errorf("a %s named %s is %+v, %v", want, name, f, err)
			}
		}
		f, err := parsed(name, raw)
		if strings.Contains(strings.ToLower(name), "gbs") || strings.Contains(name, "xclbin") {
			if err == nil || !strings.Contains(err.Error(), "was expected") {
				t.Errorf("a raw file named %s is %+v, %v", name, f, err)
			}
		} else if err != nil || f.Kind != Raw || f.Payload != (Span{0, 66}) || f.Size != 66 || !f.InterfaceID.IsZero() {
			t.Errorf("a raw file named %s is %+v, %v", name, f, err)
		}
	}
	for content, want := range map[string]string{
		"": "empty or cut off", "XeonFPGA": "8 bytes",
		string(signature(0, 0, gbs)): "fpgasupdate (signed, an update of the static part of the FPGA)",
		string(signature(2, 0, gbs)): "an update of an accelerator function), which is not programmed into a region: a .gbs was expected",
		string(signature(9, 7, gbs)): "action 7 of content 9",
	} {
		if f, err := parsed("x.bin", []byte(content)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q is %+v, %v, want %q", content, f, err, want)
		}
	}
	// Only the magic identifies a D5005's signature.
	dc := append([]byte("\x93\x65\x56\x97\x00\x00\x00\x00\x00\x00\x00\x00PR"), make([]byte, 100)...)
	if f, err := parsed("x.gbs", green(metadata(), dc)); err != nil || !f.Green.Signed {
		t.Errorf("%+v, %v", f, err)
	}
}
