package driver

import "testing"

// Numbers are of 64 bits, decimal or hexadecimal with 0x before them, and padded as files are.
func TestParseNumber(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "0x0\n": 0, "0x202000200000237\n\x00": 0x202000200000237, "10": 10, "010": 10, "0X1f": 31, "18446744073709551615": 1<<64 - 1} {
		if got, err := ParseNumber(text); got != want || err != nil {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0x", "-1", "+1", "1_0", "0x1_0", "0b1", "0o7", "1f", "18446744073709551616", "0x10000000000000000", "1 2", "\x001"} {
		if got, err := ParseNumber(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}
