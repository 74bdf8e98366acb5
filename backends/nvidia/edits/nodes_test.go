package edits

import (
	"strings"
	"testing"
)

// A node of an earlier load of the driver, with another number, would be useless to a
// container and counts as missing. /dev/null stands in for it.
func TestStaleNode(t *testing.T) {
	n := newNodes(place{here: "/", host: "/"}, t.TempDir(), newLogger())
	for major, says := range map[uint32]string{1: "", 505: "has the major number 1, the driver has 505"} {
		for path, module := range map[string]string{
			"/dev/nvidia-uvm": "nvidia-uvm", "/dev/nvidia-uvm-tools": "nvidia-uvm", "/dev/nvidia-caps/nvidia-cap3": "nvidia-caps",
			"/dev/nvidia-caps-imex-channels/channel0": "nvidia-caps-imex-channels",
		} {
			n.majors = map[string]uint32{module: major}
			err := n.checkMajor(path, "/dev/null", "")
			if (err != nil) != (says != "") || (err != nil && !strings.Contains(err.Error(), says)) {
				t.Errorf("%s, major %d: %v", path, major, err)
			}
		}
	}
	if err := n.checkMajor("/dev/nvidiactl", "/dev/null", ""); err != nil {
		t.Errorf("a node with a fixed number: %v", err)
	}
}

func FuzzParseCapability(f *testing.F) {
	f.Add([]byte("DeviceFileMinor: 3\nDeviceFileMode: 292\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if minor, err := parseCapability(data); err == nil && minor > 1<<20-1 {
			t.Errorf("%q has the minor %d", data, minor)
		}
	})
}

func FuzzParseMajors(f *testing.F) {
	f.Add([]byte("Character devices:\n  1 mem\n195 nvidia\n\nBlock devices:\n  7 loop\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, major := range parseMajors(data) {
			if name == "" || major > 4095 {
				t.Errorf("%q has %q with the major %d", data, name, major)
			}
		}
	})
}
