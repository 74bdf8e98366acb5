package amd

import "testing"

// The PCI function of a uevent is the one closest to the device.
func TestFunction(t *testing.T) {
	for path, want := range map[string]string{
		"/devices/pci0000:00/0000:00:01.1/0000:63:00.0/drm/card1": "0000:63:00.0",
		"/devices/pci10000:e0/10000:e1:00.0":                      "10000:e1:00.0",
		"/devices/platform/amdgpu_xcp_3/drm/card4":                "0000:00:00.0",
		"":                      "0000:00:00.0",
		"relative/0000:63:00.0": "0000:63:00.0",
	} {
		if got := function(path).String(); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
