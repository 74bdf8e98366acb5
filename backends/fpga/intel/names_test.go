package intel

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/pci"
)

// valid fails for a name that Kubernetes refuses as that of a resource, or, with the
// prefix that quotas put before it, as that of a limit.
func valid(t interface {
	Fatalf(string, ...any)
}, name string,
) {
	for _, full := range []string{name, "requests." + name} {
		if problems := validation.IsQualifiedName(full); len(problems) > 0 {
			t.Fatalf("%s: %v", full, problems)
		}
	}
}

func ids() *rapid.Generator[string] {
	return rapid.StringMatching("[0-9a-f]{32}").Filter(func(id string) bool { return !allOnes(id) })
}

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

// For all IDs names are valid, and other IDs have other names.
func TestNamesAreValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i, a, other := ids().Draw(t, "interface"), ids().Draw(t, "AFU"), ids().Draw(t, "another")
		af, err := AFName(i, a)
		if err != nil {
			t.Fatalf("%v", err)
		}
		valid(t, af)
		if swapped, _ := AFName(a, i); (swapped == af) != (i == a) {
			t.Fatalf("%s and %s swapped have one name, %s", i, a, af)
		}
		if same, _ := AFName(i, other); (same == af) != (a == other) {
			t.Fatalf("%s and %s have one name, %s", a, other, af)
		}
		region, err := RegionName(i)
		if err != nil {
			t.Fatalf("%v", err)
		}
		valid(t, region)
		at := pci.Address{
			Domain: rapid.Uint32().Draw(t, "domain"), Bus: rapid.Uint8().Draw(t, "bus"),
			Device: rapid.Uint8Max(31).Draw(t, "device"), Function: rapid.Uint8Max(7).Draw(t, "function"),
		}
		kind := Card{PCI: pci.Device{Address: at, Vendor: rapid.Uint16().Draw(t, "vendor"), ID: rapid.Uint16().Draw(t, "device")}, Subsystem: rapid.Uint16().Draw(t, "subsystem")}
		valid(t, kind.KindName())
		if id := CardID(at); len(id) > 48 {
			t.Fatalf("%s is too long for the ID of a card", id)
		}
		if id := PortID(at, rapid.IntRange(0, maxPort).Draw(t, "port")); len(id) > 63 || len(validation.IsDNS1123Label(id)) > 0 {
			t.Fatalf("%s is no ID of a device", id)
		}
	})
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

func TestParseNumbers(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "0x0\n": 0, "0x202000200000237\n\x00": 0x202000200000237, "10": 10, "010": 10, "0X1f": 31, "18446744073709551615": 1<<64 - 1} {
		if got, err := driver.ParseNumber(text); got != want || err != nil {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0x", "-1", "+1", "1_0", "0x1_0", "0b1", "0o7", "1f", "18446744073709551616", "0x10000000000000000", "1 2", "\x001"} {
		if got, err := driver.ParseNumber(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
	for text, want := range map[string][2]uint64{
		"0x12": {0, 0x12}, "0": {0, 0}, "0x1" + strings.Repeat("0", 16): {1, 0}, "0x" + strings.Repeat("f", 32): {1<<64 - 1, 1<<64 - 1},
	} {
		if high, low, err := parseRegister(text); high != want[0] || low != want[1] || err != nil {
			t.Errorf("%q: %x %x, %v", text, high, low, err)
		}
	}
	for _, text := range []string{"", "0x" + strings.Repeat("f", 33), "0x" + strings.Repeat("f", 31) + "g", "0x+" + strings.Repeat("1", 31), "0xg" + strings.Repeat("1", 31), "0x0" + strings.Repeat("f", 32)} {
		if high, low, err := parseRegister(text); err == nil {
			t.Errorf("%q is %x %x", text, high, low)
		}
	}
	if major, minor, err := parseDev("4095:1048575\n\x00"); major != 4095 || minor != 1048575 || err != nil {
		t.Errorf("%d:%d, %v", major, minor, err)
	}
	for _, text := range []string{"", "1", ":", "1:", ":1", "4096:0", "0:1048576", "-1:0", "1:2:3", "a:b"} {
		if major, minor, err := parseDev(text); err == nil {
			t.Errorf("%q is %d:%d", text, major, minor)
		}
	}
}

// Equal cards without an interface ID have one name wherever they are, and another one than
// cards of another kind and than the other functions of the card.
func TestKindName(t *testing.T) {
	for what, c := range map[string]struct {
		card Card
		want string
	}{
		"a card":             {Card{PCI: pci.Device{Address: pci.Address{Bus: 0x01}, Vendor: vendorIntel, ID: deviceDFL}, Subsystem: 0x17d4}, "region-8086-bcce-17d4"},
		"in another slot":    {Card{PCI: pci.Device{Address: pci.Address{Domain: 1, Bus: 0xb1}, Vendor: vendorIntel, ID: deviceDFL}, Subsystem: 0x17d4}, "region-8086-bcce-17d4"},
		"another function":   {Card{PCI: pci.Device{Address: pci.Address{Bus: 0x01, Function: 2}, Vendor: vendorIntel, ID: deviceDFL}, Subsystem: 0x17d4}, "region-8086-bcce-17d4-f2"},
		"another card":       {Card{PCI: pci.Device{Address: pci.Address{Bus: 0x01}, Vendor: vendorIntel, ID: deviceDFL}, Subsystem: 0x1771}, "region-8086-bcce-1771"},
		"no subsystem":       {Card{PCI: pci.Device{Address: pci.Address{Bus: 0x01}, Vendor: 0x1c2c, ID: 0x1000}}, "region-1c2c-1000"},
		"virtual":            {Card{PCI: pci.Device{Address: pci.Address{Bus: 0x01, Function: 5}, Vendor: vendorIntel, ID: deviceDFLVF}, Physical: &pci.Address{Bus: 0x01}}, "region-8086-bccf"},
		"in virtual machine": {Card{PCI: pci.Device{Address: pci.Address{Bus: 0x07}, Vendor: vendorIntel, ID: deviceDFLVF}}, "region-8086-bccf"},
	} {
		if got := c.card.RegionName(); got != Domain+"/"+c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
}
