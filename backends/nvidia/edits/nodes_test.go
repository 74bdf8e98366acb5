package edits

import (
	"strings"
	"testing"
)

func TestParseCapability(t *testing.T) {
	for text, want := range map[string]int64{
		"DeviceFileMinor: 3\nDeviceFileMode: 292\nDeviceFileModify: 1\n": 3,
		"DeviceFileMode: 292\nDeviceFileMinor:\t1048575":                 1048575,
		"DeviceFileMinor: 1048576":                                       -1,
		"DeviceFileMinor: -1":                                            -1,
		"DeviceFileMinor: x":                                             -1,
		"DeviceFileMinor":                                                -1,
		"deviceFileMinor: 3":                                             -1,
		"":                                                               -1,
	} {
		got, err := parseCapability([]byte(text))
		if (err != nil) != (want < 0) || (err == nil && int64(got) != want) {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
}

func TestParseMajors(t *testing.T) {
	got := parseMajors([]byte("Character devices:\n  1 mem\n195 nvidia-frontend\n195 nvidia\n504 nvidia-caps\n" +
		"505 nvidia-uvm\n506 nvidia-uvm\nx nonsense\n99999999 big\n\nBlock devices:\n  7 nvidia-fs\n"))
	for name, want := range map[string]uint32{"mem": 1, "nvidia": 195, "nvidia-caps": 504, "nvidia-uvm": 505} {
		if got[name] != want {
			t.Errorf("%s: got %d, want %d", name, got[name], want)
		}
	}
	if len(got) != 5 {
		t.Errorf("got %v", got)
	}
}

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
			err := n.checkMajor(path, "/dev/null")
			if (err != nil) != (says != "") || (err != nil && !strings.Contains(err.Error(), says)) {
				t.Errorf("%s, major %d: %v", path, major, err)
			}
		}
	}
	if err := n.checkMajor("/dev/nvidiactl", "/dev/null"); err != nil {
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
