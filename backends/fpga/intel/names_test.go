package intel

import (
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/pci"
)

// Names are those of Intel's device plugin.
func TestNames(t *testing.T) {
	for name, c := range map[string]struct{ i, a, af, region string }{
		"as known":     {"ce48969398f05f33946d560708be108a", "d8424dc4a4a3c413f89e433683f9040b", "af-ce4.d84.zkiWk5jwXzOUbVYHCL4QithCTcSko8QT-J5DNoP5BAs", "region-ce48969398f05f33946d560708be108a"},
		"with NUL":     {"ce48969398f05f33946d560708be108a\n\x00", "d8424dc4a4a3c413f89e433683f9040b  \x00", "af-ce4.d84.zkiWk5jwXzOUbVYHCL4QithCTcSko8QT-J5DNoP5BAs", "region-ce48969398f05f33946d560708be108a"},
		"no interface": {"", "d8424dc4a4a3c413f89e433683f9040b", "", ""},
		"all f":        {strings.Repeat("f", 32), "d8424dc4a4a3c413f89e433683f9040b", "", ""},
		"none loaded":  {"ce48969398f05f33946d560708be108a", strings.Repeat("F", 32), "", "region-ce48969398f05f33946d560708be108a"},
		"not an ID":    {"../ce48969398f05f33946d560708be10", "d8424dc4a4a3c413f89e433683f9040b", "", ""},
	} {
		full := func(name string) string {
			if name != "" {
				name = "fpga.intel.com/" + name
			}
			return name
		}
		if got, err := AFName(c.i, c.a); got != full(c.af) || (err == nil) != (c.af != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, full(c.af))
		}
		if got, err := RegionName(c.i); got != full(c.region) || (err == nil) != (c.region != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, full(c.region))
		}
		if swapped, err := AFName(c.a, c.i); err == nil && swapped == full(c.af) {
			t.Errorf("%s: the interface and the AFU swapped have the same name", name)
		}
		card := Card{PCI: pci.Device{Address: pci.Address{Bus: 1, Function: 1}, Vendor: vendorIntel, ID: deviceDFL}, Subsystem: 0x17d4, Interface: c.i}
		want := full(c.region)
		if want == "" {
			want = "fpga.intel.com/region-8086-bcce-17d4-f1"
		}
		if got := card.RegionName(); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// An ID is parsed in either case and with trailing padding; other texts are refused.
func TestParseID(t *testing.T) {
	const id = "f7df405cbd7acf7222f144b0b93acd18"
	for text, want := range map[string]string{
		id: id, strings.ToUpper(id) + "\n": id, id + "\x00\x00": id, id + " \n\x00\x00\n": id, "": "", "\x00": "", " \n": "",
		"f7df405c-bd7a-cf72-22f1-44b0b93acd18": id, "F7DF405C-BD7A-CF72-22F1-44B0B93ACD18\n": id,
		"f7df405c-bd7acf7222f144b0b93acd18": "error", "f7df405cbd7a-cf72-22f1-44b0b93acd18----": "error",
		id + "0": "error", id[1:]: "error", "0x" + id: "error", "0x" + id[2:]: "error", id[:16] + "\x00" + id[16:]: "error",
		id[:31] + "g": "error", "\x00" + id: "error", "\xff": "error",
	} {
		got, err := ParseID(text)
		if (err != nil) != (want == "error") || err == nil && got != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}
