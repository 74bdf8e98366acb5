package fpgatree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/test/sysroot"
)

func read(t *testing.T, parts ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Trim(string(b), "\x00\n")
}

func address(t *testing.T, s string) pci.Address {
	t.Helper()
	at, err := pci.ParseAddress(s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// A capture is unpacked with its links as they are, and what it lacks is added.
func TestCaptures(t *testing.T) {
	for name, want := range map[string]struct {
		function, port, afu string
		hwmon               int
	}{
		"mock_sys_dfl_d5005_nlb0":      {"0000:05:00.0", "dfl-port.0", "f7df405cbd7acf7222f144b0b93acd18", 1},
		"mock_sys_dfl_n3000_nlb0":      {"0000:05:00.0", "dfl-port.0", "9aeffe5f84570612c000c9660d824272", 1},
		"mock_sys_dfl_n6000_sku0_nlb0": {"0000:01:00.0", "dfl-port.0", "", 2},
		"mock_sys_tmp-dcp-rc-nlb3":     {"0000:05:00.0", "intel-fpga-port.0", "d8424dc4a4a3c413f89e433683f9040b", 0},
	} {
		t.Run(name, func(t *testing.T) {
			archive := sysroot.Captured(t, "fpga/"+name+".tar.gz")
			tree, err := Unpack(sysroot.TempDir(t), archive)
			if err != nil {
				t.Fatal(err)
			}
			at := address(t, want.function)
			port, err := tree.Find(at, "port0")
			if err != nil || filepath.Base(port) != want.port {
				t.Fatalf("the port is %q: %v", port, err)
			}
			if want.afu != "" {
				if got := read(t, tree.Root, port, "afu_id"); got != want.afu {
					t.Errorf("the AFU is %q, want %q", got, want.afu)
				}
				if err := tree.Program(at, 0, NoAFU); err != nil || read(t, tree.Root, port, "afu_id") != NoAFU {
					t.Errorf("the AFU could not be changed: %v", err)
				}
			}
			if got := read(t, tree.Sysfs(), "bus/pci/devices", want.function, "class"); got != "0x120000" {
				t.Errorf("the class is %q", got)
			}
			if s, err := os.Stat(filepath.Join(tree.Devfs(), want.port)); err != nil || s.IsDir() {
				t.Errorf("the node is %v, %v", s, err)
			}
			if got, _ := filepath.Glob(filepath.Join(tree.Sysfs(), "class/hwmon/*/name")); len(got) != want.hwmon {
				t.Errorf("sensors are %q, want %d", got, want.hwmon)
			}
		})
	}
}
