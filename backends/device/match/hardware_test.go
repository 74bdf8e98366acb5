package match_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/test/devicetree"
)

// A virtual function has the number that virtfnN of its physical function has, also on the next
// bus; what is none has an error.
func TestVirtualIndex(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		address, physical, offset, stride, want string
		index                                   uint64
	}{
		"first":             {address: "0000:3b:00.2", physical: "0000:3b:00.0", offset: "2", stride: "1", index: 0},
		"second port":       {address: "0000:3b:08.3", physical: "0000:3b:00.1", offset: "64", stride: "1", index: 2},
		"stride":            {address: "0000:3b:02.1", physical: "0000:3b:00.0", offset: "1", stride: "2", index: 8},
		"next bus":          {address: "0000:3c:00.1", physical: "0000:3b:00.0", offset: "128", stride: "1", index: 129},
		"before the first":  {address: "0000:3b:00.1", physical: "0000:3b:00.0", offset: "2", stride: "1", want: "is no virtual function of 0000:3b:00.0"},
		"between":           {address: "0000:3b:00.3", physical: "0000:3b:00.0", offset: "2", stride: "2", want: "is no virtual function of 0000:3b:00.0"},
		"no stride":         {address: "0000:3b:00.3", physical: "0000:3b:00.0", offset: "2", stride: "0", want: "is no virtual function of 0000:3b:00.0"},
		"no number":         {address: "0000:3b:00.3", physical: "0000:3b:00.0", offset: "x", stride: "1", want: "is no number"},
		"physical function": {address: "0000:3b:00.3", want: "0000:3b:00.3 is no virtual function"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := "sys/devices/pci0/" + c.address + "/vendor: 0x8086\nsys/devices/pci0/" + c.address + "/device: 0x154c\n" +
				"sys/bus/pci/devices/" + c.address + " -> ../../../devices/pci0/" + c.address
			if c.physical != "" {
				text += "\nsys/devices/pci0/" + c.address + "/physfn -> ../" + c.physical + "\nsys/devices/pci0/" + c.physical +
					"/sriov_offset: " + c.offset + "\nsys/devices/pci0/" + c.physical + "/sriov_stride: " + c.stride
			}
			found, _ := match.Finder{Host: devicetree.New(t, text).Host()}.Find(&match.Selector{PCI: &match.PCI{Vendors: []string{"8086"}}})
			if len(found) != 1 {
				t.Fatal(found)
			}
			index, err := must(found[0].Function()).VirtualIndex()
			if c.want == "" && (err != nil || index != c.index) {
				t.Errorf("%d, %v, want %d", index, err, c.index)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%d, %v, want %q", index, err, c.want)
			}
			if c.physical == "" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v, want fs.ErrNotExist", err)
			}
		})
	}
}

// The kernel gives a group to a container unless a member of it has a driver that is neither of VFIO nor leaves DMA to
// others: Documentation/driver-api/vfio.rst; driver_managed_dma of pci-stub and pcieport, and not of
// pci-pf-stub, in drivers/pci.
func TestGroupInUse(t *testing.T) {
	t.Parallel()
	const members = "sys/kernel/iommu_groups/7/devices/"
	for other, used := range map[string]bool{
		"": false, "vfio-pci": false, "mlx5_vfio_pci": false, "pci-stub": false, "pcieport": false,
		"snd_hda_intel": true, "lpc_ich": true, "pci-pf-stub": true,
	} {
		for _, member := range []string{"0000:01:00.1", "0000:00:1f.0", "fd000000.dma"} { // also a bridge, and a platform device
			text := members + "0000:01:00.0/driver -> ../../../../bus/pci/drivers/vfio-pci\n" + members + member + "/\n"
			if other != "" {
				text += members + member + "/driver -> ../../../../bus/pci/drivers/" + other + "\n"
			}
			text += "sys/devices/pci0/0000:01:00.0/iommu_group -> ../../../kernel/iommu_groups/7\nsys/devices/pci0/0000:01:00.0/vendor: 0x1\n" +
				"sys/devices/pci0/0000:01:00.0/device: 0x1\nsys/bus/pci/devices/0000:01:00.0 -> ../../../devices/pci0/0000:01:00.0\n"
			found, _ := match.Finder{Host: devicetree.New(t, text).Host()}.Find(&match.Selector{PCI: &match.PCI{}})
			if len(found) != 1 {
				t.Fatal(found)
			}
			group := must(must(found[0].Function()).IOMMUGroup())
			var want []string
			if used {
				want = []string{member + " (" + other + ")"}
			}
			if got, err := group.InUse(); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s has %q: %q, %v, want %q", member, other, got, err, want)
			}
			if got, err := group.InUse(member); err != nil || len(got) > 0 {
				t.Errorf("%s is left out: %q, %v", member, got, err)
			}
		}
	}
}
