package alveo

import (
	"strings"
	"testing"
)

// Names are valid for Kubernetes, and differ for different shells.
func TestPlatformName(t *testing.T) {
	for _, c := range []struct {
		vbnv string
		time uint64
		want string
	}{
		{"xilinx_u250_gen3x16_xdma_shell_4_1", 0, "xilinx_u250_gen3x16_xdma_shell_4_1-0"},
		{"xilinx_u200_xdma_201830_2", 1561465320, "xilinx_u200_xdma_201830_2-1561465320"},
		{"xilinx_aws-vu9p-f1_shell-v04261818_201920_2", 0, "xilinx_aws-vu9p-f1_shell-v04261818_201920_2-0"},
		{"", 5, ""},
		{"xilinx:u200:xdma:1", 1, "xilinx_u200_xdma_1-e35ae4a5-1"},
		{"__", 1, "9911f4d2-1"},
		{strings.Repeat("x", 64), 18446744073709551615, strings.Repeat("x", 33) + "-7ce10097-18446744073709551615"},
	} {
		got := PlatformName(Shell{VBNV: c.vbnv, Timestamp: c.time})
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.vbnv, got, c.want)
		}
		checkName(t, got)
	}
	if a, b := PlatformName(Shell{VBNV: "a:b"}), PlatformName(Shell{VBNV: "a_b"}); a == b {
		t.Errorf("two shells are %s", a)
	}
	if a, b := PlatformName(Shell{VBNV: strings.Repeat("x", 63) + "a"}), PlatformName(Shell{VBNV: strings.Repeat("x", 63) + "b"}); a == b {
		t.Errorf("two shells are %s", a)
	}
}

// checkName fails the test if Kubernetes would refuse a name; none is not refused.
func checkName(t testing.TB, name string) {
	t.Helper()
	ends := func(c byte) bool { return isLetter(rune(c)) }
	if name == "" {
		return
	}
	if len(name) > longest || !ends(name[0]) || !ends(name[len(name)-1]) ||
		strings.ContainsFunc(name, func(r rune) bool { return !isLetter(r) && !strings.ContainsRune("-_.", r) }) {
		t.Errorf("%q is no name of a resource", name)
	}
}
