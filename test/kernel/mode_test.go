package kernel

import "testing"

// TestModeThatUdevChangesLate verifies that a container gets the mode that a node has when it starts, also if udev
// changed it after the device was offered. It fails if a mode is written with the device's definition.
func TestModeThatUdevChangesLate(t *testing.T) {
	configure(t, standard)
	untilCount(t, "example.com/serial", 0)
	adapter(t, "left", "usb0", "1")
	untilCount(t, "example.com/serial", 1)
	mode := func(pod string) string {
		hold(t, pod, "example.com/serial")
		defer release(t, pod)
		return m.Run(t, "runc exec %s stat -c %%a %s", pod, nodes(t, pod)[0])
	}
	if before := mode("before"); before != "660" {
		t.Fatalf("the node's mode is %s at first, which is not udev's", before)
	}
	t.Cleanup(func() { m.Run(t, "rm /run/udev/rules.d/99-late.rules && udevadm control --reload") })
	m.Write(t, "/run/udev/rules.d/99-late.rules", `SUBSYSTEM=="tty", KERNEL=="ttyUSB*", MODE="0666"`)
	m.Run(t, "udevadm control --reload && udevadm trigger --action=change --subsystem-match=tty --settle")
	if after := mode("after"); after != "666" {
		t.Errorf("a container has the mode %s, and the node 666", after)
	}
}
