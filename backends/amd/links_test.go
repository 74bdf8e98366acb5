package amd

import (
	"testing"

	"github.com/accelmux/accelmux/backends/pci"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// The kind of a PCIe link depends on how far up the closest common bridge is.
func TestWay(t *testing.T) {
	const (
		one, several = backendv1.LinkKind_LINK_KIND_PCIE_SWITCH, backendv1.LinkKind_LINK_KIND_PCIE_MULTI_SWITCH
		host, inside = backendv1.LinkKind_LINK_KIND_PCIE_HOST_BRIDGE, backendv1.LinkKind_LINK_KIND_SAME_NUMA
		cross, other = backendv1.LinkKind_LINK_KIND_CROSS_NUMA, backendv1.LinkKind_LINK_KIND_OTHER
	)
	at := func(numa int, parents ...string) pci.Device {
		d := pci.Device{NUMANode: numa}
		for _, parent := range parents {
			address, err := pci.ParseAddress(parent)
			if err != nil {
				t.Fatal(err)
			}
			d.Parents = append(d.Parents, address)
		}
		return d
	}
	base := at(0, "00:01.0", "01:00.0", "02:00.0")
	for _, c := range []struct {
		other pci.Device
		want  backendv1.LinkKind
	}{
		{at(0, "00:01.0", "01:00.0", "02:01.0"), one},
		{at(0, "00:01.0", "01:00.0", "02:01.0", "05:00.0", "06:00.0"), several},
		{at(0, "00:02.0", "07:00.0"), host},
		{at(0, "40:01.0"), inside},
		{at(0), inside},
		{at(1, "80:01.0"), cross},
		{at(-1, "40:01.0"), other},
	} {
		if got, back := way(base, c.other), way(c.other, base); got != c.want || back != c.want {
			t.Errorf("to %v: %v, back %v, want %v", c.other.Parents, got, back, c.want)
		}
	}
}

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
