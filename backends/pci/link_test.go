package pci

import (
	"testing"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// The kind of a PCIe link depends on how far up the closest common bridge is.
func TestLinkTo(t *testing.T) {
	const (
		one, several = backendv1.LinkKind_LINK_KIND_PCIE_SWITCH, backendv1.LinkKind_LINK_KIND_PCIE_MULTI_SWITCH
		host, inside = backendv1.LinkKind_LINK_KIND_PCIE_HOST_BRIDGE, backendv1.LinkKind_LINK_KIND_SAME_NUMA
		cross, other = backendv1.LinkKind_LINK_KIND_CROSS_NUMA, backendv1.LinkKind_LINK_KIND_OTHER
	)
	at := func(numa int, parents ...string) Device {
		d := Device{NUMANode: numa}
		for _, parent := range parents {
			address, err := ParseAddress(parent)
			if err != nil {
				t.Fatal(err)
			}
			d.Parents = append(d.Parents, address)
		}
		return d
	}
	base := at(0, "00:01.0", "01:00.0", "02:00.0")
	for _, c := range []struct {
		other Device
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
		if got, back := base.LinkTo(c.other), c.other.LinkTo(base); got != c.want || back != c.want {
			t.Errorf("to %v: %v, back %v, want %v", c.other.Parents, got, back, c.want)
		}
	}
}
