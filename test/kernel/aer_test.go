package kernel

import (
	"slices"
	"testing"

	"github.com/accelmux/accelmux/test/kernel/machine"
	"github.com/accelmux/accelmux/test/kernel/wire"
	"github.com/accelmux/accelmux/test/patience"
)

// inject makes a card report a PCIe error, named as QEMU names it, and waits for a line of the kernel's log.
func inject(t *testing.T, card, name, line string) {
	t.Helper()
	m.Run(t, "dmesg --clear")
	if _, err := m.Command("human-monitor-command", machine.Args{"command-line": "pcie_aer_inject_error " + card + " " + name}); err != nil {
		t.Fatal(err)
	}
	m.Run(t, "for i in $(seq 600); do dmesg | grep -q '%s' && exit; sleep 0.1; done; dmesg; exit 1", line)
}

// TestErrorsOfPCIe verifies that a function stays healthy over a correctable PCIe error and over one from which the kernel
// recovers it, that it is unhealthy after one from which the kernel does not, and healthy when the agent, which may write to
// sysfs here, has reset it. It fails if a counter's growth or any event of AER is a fault, or only events of the function
// itself count: that of a failed recovery is its port's.
func TestErrorsOfPCIe(t *testing.T) {
	const dropIn = "/run/systemd/system/accelmux.service.d/reset.conf"
	m.Write(t, dropIn, "[Service]\nProtectKernelTunables=no")
	m.Run(t, "systemctl daemon-reload; systemctl restart accelmux")
	t.Cleanup(func() { m.Run(t, "rm %s; systemctl daemon-reload; systemctl restart accelmux", dropIn) })
	configure(t, standard)
	t.Cleanup(func() { untilCount(t, vfio, 0) }) // before the agent is started again
	plug(t, "virtio-net-pci", "reporting", machine.Args{"bus": "port0", "aer": true, "romfile": ""})
	address := virtioCard(t)
	bind(t, address, "vfio-pci")
	before := untilCount(t, vfio, 1)
	// By SERR# a device reports errors, and a port passes them on.
	m.Run(t, "setpci -s $(basename $(realpath /sys/bus/pci/devices/%[1]s/..)) COMMAND=0100:0100; setpci -s %[1]s COMMAND=0100:0100", address)
	unchanged(t, vfio, before, func() { inject(t, "reporting", "BAD_TLP", "BadTLP") })
	unchanged(t, vfio, before, func() { inject(t, "reporting", "POISON_TLP", "device recovery successful") })
	// The kernel resets the link, and QEMU's port does not show it as active afterwards.
	from := len(m.Changes(t, 0))
	inject(t, "reporting", "DLP", "device recovery failed")
	if !patience.Within(machine.Limit, func() bool {
		return slices.ContainsFunc(m.Changes(t, from), func(c wire.Change) bool { return slices.Contains(c.Devices, "!"+before[0]) })
	}) {
		t.Errorf("kubelet had no list with %s as unhealthy", before[0])
	}
	untilList(t, vfio, before...)
}

// unchanged verifies that kubelet has the same list of a resource when the backend has seen what happens, and has no other
// meanwhile: a device with a fault may have been reset before that.
func unchanged(t *testing.T, resource string, want []string, happens func()) {
	t.Helper()
	untilCount(t, "example.com/kvm", 1)
	from := len(m.Changes(t, 0))
	happens()
	scanned(t)
	untilList(t, resource, slices.Clone(want)...)
	for _, c := range m.Changes(t, from) {
		if c.Resource == resource && !slices.Equal(c.Devices, want) {
			t.Errorf("kubelet's list of %s was %q, and must stay %q", resource, c.Devices, want)
		}
	}
}

// scanned waits until the backend has seen what happened before, which kvm shows.
func scanned(t *testing.T) {
	t.Helper()
	untilCount(t, "example.com/kvm", 1)
	m.Run(t, "modprobe --remove kvm_amd")
	untilCount(t, "example.com/kvm", 0)
	m.Run(t, "modprobe kvm_amd")
	untilCount(t, "example.com/kvm", 1)
}
