package kernel

import (
	"slices"
	"testing"

	"github.com/accelmux/accelmux/test/kernel/machine"
)

const vfio = "example.com/vfio"

// card plugs a network card into a root port, and returns its PCI address.
func card(t *testing.T, port string) string {
	t.Helper()
	plug(t, "virtio-net-pci", "card-"+port, machine.Args{"bus": port, "romfile": ""})
	return virtioCard(t)
}

// virtioCard is the PCI address of the network card that virtio's driver has.
func virtioCard(t *testing.T) string {
	t.Helper()
	return m.Run(t, `until found=$(ls -d /sys/bus/pci/devices/*/virtio*/net 2>/dev/null); do sleep 0.1; done; echo "$found" | tail -n 1 | cut -d/ -f6`)
}

// bind gives a PCI function to a driver, "" for its own.
func bind(t *testing.T, address, driver string) {
	t.Helper()
	m.Run(t, "modprobe vfio-pci; cd /sys/bus/pci/devices/%[1]s && { [ ! -e driver ] || echo %[1]s >driver/unbind; } && echo %[2]s >driver_override && echo %[1]s >/sys/bus/pci/drivers_probe", address, driver)
}

func group(t *testing.T, address string) string {
	t.Helper()
	return "/dev/vfio/" + m.Run(t, "basename $(readlink /sys/bus/pci/devices/%s/iommu_group)", address)
}

// TestGroupsBoundUnboundAndUnplugged verifies that the IOMMU group of a card is offered while vfio-pci has it and opens
// in a container, that it has the NUMA node of its root bus, that it is unhealthy while the card's own driver has it, and that a
// card that is unplugged while a container has it stays unhealthy until the container ends. It fails if the driver is not
// compared, a device that is allocated is left out when its object is gone, or a NUMA node is that of the first root bus.
func TestGroupsBoundUnboundAndUnplugged(t *testing.T) {
	configure(t, standard)
	address := card(t, "numa1")
	bind(t, address, "vfio-pci")
	id := untilCount(t, vfio, 1)[0]
	if d := m.Devices(t, vfio)[0]; !slices.Equal(d.NUMANodes, []int{1}) {
		t.Errorf("NUMA nodes %v of %s behind the expander bridge of node 1", d.NUMANodes, d.ID)
	}
	hold(t, "vm", vfio)
	if text := opens(t, "vm", group(t, address), "/dev/vfio/vfio"); text != "" {
		t.Error(text)
	}
	release(t, "vm")
	bind(t, address, "")
	untilList(t, vfio, "!"+id)
	bind(t, address, "vfio-pci")
	untilList(t, vfio, id)
	hold(t, "vm", vfio)
	unplug(t, "card-numa1")
	untilList(t, vfio, "!"+id)
	release(t, "vm")
	untilCount(t, vfio, 0)
}
