package kernel

import (
	"strings"
	"testing"
)

// TestFunctionsGiveTheNodesOfTheirDriver verifies that of three virtual functions the one with its own driver gives no
// node, the one with vfio-pci its IOMMU group, and the one with uio_pci_generic its UIO node, each of which opens. It
// fails if the nodes are those of one driver, or of the driver with which a function was first seen.
func TestFunctionsGiveTheNodesOfTheirDriver(t *testing.T) {
	address := igb(t)
	configure(t, configuration("presets: [sriov]", `"/dev/vfio/[0-9]*", /dev/vfio/vfio, "/dev/uio[0-9]*"`,
		`{name: example.com/vf, selector: '"eth0" in device.attributes["device"].pfNames'}`))
	m.Run(t, "modprobe --all vfio-pci uio_pci_generic; echo 3 >/sys/bus/pci/devices/%s/sriov_numvfs", address)
	before := untilCount(t, vf, 3)
	functions := strings.Fields(m.Run(t, "for i in 0 1 2; do basename $(realpath /sys/bus/pci/devices/%s/virtfn$i); done", address))
	bind(t, functions[1], "vfio-pci")
	bind(t, functions[2], "uio_pci_generic")
	untilList(t, vf, before...)
	untilSame(t, map[string]string{
		functions[0]: "",
		functions[1]: group(t, functions[1]) + " /dev/vfio/vfio", // a number is before a letter
		functions[2]: "/dev/" + m.Run(t, "ls /sys/bus/pci/devices/%s/uio", functions[2]),
	}, func() map[string]string { return nodesByID(t, vf, 3) })
}
