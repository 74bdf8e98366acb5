package intel

import (
	"fmt"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/driver"
)

// With any content of a file, an ID is 32 digits in lower case or empty, and the names made of
// it are valid.
func FuzzIDs(f *testing.F) {
	f.Add("f7df405cbd7acf7222f144b0b93acd18\n", "F7DF405C-BD7A-CF72-22F1-44B0B93ACD18")
	f.Add("\x00\x00", strings.Repeat("f", 32))
	f.Add("9346116da52d5ca8b06aa9a389ef7c8d \x00", "0x1")
	f.Fuzz(func(t *testing.T, a, b string) {
		id, err := ParseID(a)
		if again, errAgain := ParseID(id); err == nil && (again != id || errAgain != nil) {
			t.Errorf("%q is %q, and that %q", a, id, again)
		}
		if id != "" && (len(id) != digits || strings.Trim(id, "0123456789abcdef") != "" || err != nil) {
			t.Errorf("%q is %q, %v", a, id, err)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
		if name, err := AFName(a, b); err == nil {
			valid(t, name)
		}
		if name, err := RegionName(a); err == nil {
			valid(t, name)
		}
		valid(t, Card{Interface: a}.RegionName())
	})
}

// A number that is read, written and read again is the same.
func FuzzNumbers(f *testing.F) {
	for _, text := range []string{"0x0", "0", "0x202000200000237\n\x00", "245:0", "0x" + strings.Repeat("f", 32), "1_0", "-1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := driver.ParseNumber(text); err == nil {
			if again, err := driver.ParseNumber(fmt.Sprintf("0x%x", n)); err != nil || again != n {
				t.Errorf("%q is %d, and then %d, %v", text, n, again, err)
			}
		}
		if high, low, err := parseRegister(text); err == nil {
			if h, l, err := parseRegister(fmt.Sprintf("0x%016x%016x", high, low)); err != nil || h != high || l != low {
				t.Errorf("%q is %x %x, and then %x %x, %v", text, high, low, h, l, err)
			}
		}
		if major, minor, err := parseDev(text); err == nil {
			if a, b, err := parseDev(fmt.Sprintf("%d:%d", major, minor)); err != nil || a != major || b != minor {
				t.Errorf("%q is %d:%d, and then %d:%d, %v", text, major, minor, a, b, err)
			}
		}
		if n, ok := numbered("region"+text, "region"); ok && strings.TrimLeft(text, "0") != strings.TrimLeft(fmt.Sprint(n), "0") {
			t.Errorf("%q is %d", text, n)
		}
	})
}
