package kernel

import (
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/kernel/machine"
)

const can = "example.com/can"

// bus plugs a CAN card (kvaser_pci) with one channel into a root port, and sets its interface up.
func bus(t *testing.T) {
	t.Helper()
	// QEMU's card never lets go of its bus.
	if _, err := m.Command("object-add", machine.Args{"qom-type": "can-bus", "id": "bus"}); err != nil && !strings.Contains(err.Error(), "duplicate") {
		t.Fatal(err)
	}
	plug(t, "kvaser_pci", "can", machine.Args{"bus": "port2", "canbus": "bus"})
	m.Run(t, "until ip link set can0 up type can bitrate 500000 2>/dev/null; do sleep 0.1; done")
}

// TestInterfaceIsMovedIntoAContainerAndBack verifies that a container gets the interface of a CAN card, which is
// offered meanwhile and is back, up and healthy, when the container has ended. It fails if an interface that is in
// another namespace counts as gone, or it is not set up again.
func TestInterfaceIsMovedIntoAContainerAndBack(t *testing.T) {
	configure(t, standard)
	untilCount(t, can, 0)
	bus(t)
	id := untilCount(t, can, 1)[0]
	hold(t, "pod", can)
	// Again, in a network namespace that a pod has for its containers, as container runtimes make it.
	m.End(t, "pod")
	t.Cleanup(func() { m.Run(t, "ip netns delete pod") })
	m.Run(t, `ip netns add pod && ip link set can0 up && cd /run/containers/pod &&
		sed -i 's#"type":"network"#&,"path":"/run/netns/pod"#' config.json && runc run --detach --bundle . pod </dev/null >log 2>&1 || { cat log; false; }`)
	m.Run(t, "runc exec pod ip link show can0 && ! ip link show can0")
	untilList(t, can, id)
	release(t, "pod")
	m.Run(t, "ip link show can0 up | grep can0")
	untilList(t, can, id)
}

// TestInterfaceThatIsDown verifies that an interface that was set down is not offered to new pods, and is again when it
// is up. It fails if health is presence.
func TestInterfaceThatIsDown(t *testing.T) {
	configure(t, standard)
	untilCount(t, can, 0)
	bus(t)
	id := untilCount(t, can, 1)[0]
	m.Run(t, "ip link set can0 down")
	untilList(t, can, "!"+id)
	m.Run(t, "ip link set can0 up")
	untilList(t, can, id)
}

// TestInterfaceOfANamespaceThatEndedFirst verifies that an interface that the kernel has moved back, down, because a
// pod's network namespace ended before its container's hook ran, is not healthy for new pods until it is set up. It
// fails if neither operstate nor the mark in the interface's alias counts.
func TestInterfaceOfANamespaceThatEndedFirst(t *testing.T) {
	configure(t, standard)
	untilCount(t, can, 0)
	bus(t)
	id := untilCount(t, can, 1)[0]
	hold(t, "pod", can)
	m.Run(t, "runc kill pod KILL && until ip link show can0 2>/dev/null; do sleep 0.1; done")
	untilList(t, can, "!"+id)
	release(t, "pod")
	m.Run(t, "ip link set can0 up")
	untilList(t, can, id)
}
