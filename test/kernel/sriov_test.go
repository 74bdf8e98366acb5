package kernel

import (
	"slices"
	"testing"

	"github.com/accelmux/accelmux/test/kernel/machine"
)

const vf = "example.com/vf"

// functions is the configuration for virtual functions: those of eth0 that have an Ethernet interface, or vfio-pci.
//
// The preset kvm is for unchanged.
var functions = configuration(`presets: [kvm], kinds: [{preset: sriov, match: {pci: {classes: ["02"]}, `+
	`where: 'pci.has("physfn") && (pci.driver == "vfio-pci" || pci.names("net/*").exists(n, pci.text("net/" + n + "/type") == "1"))'}}]`,
	`"/dev/vfio/[0-9]*", /dev/vfio/vfio, /dev/kvm`,
	`{name: example.com/vf, selector: '"eth0" in device.attributes["device"].pfNames'}`,
	"{name: example.com/kvm, class: kvm}")

// igb plugs a network card with virtual functions into a root port, sets its interface eth0 up, and returns its PCI
// address.
func igb(t *testing.T) string {
	t.Helper()
	plug(t, "igb", "igb", machine.Args{"bus": "port1"})
	t.Cleanup(func() { m.Try(t, "for pf in /sys/bus/pci/drivers/igb/0000:*; do echo 0 >$pf/sriov_numvfs; done") })
	return m.Run(t, `until ip link set eth0 up 2>/dev/null; do sleep 0.1; done
		until [ $(cat /sys/class/net/eth0/operstate) = up ]; do sleep 0.1; done
		basename $(realpath /sys/class/net/eth0/device)`)
}

// TestVirtualFunctionsComeAndGo verifies that functions are offered when they are made, that of three that go the one that
// a container has stays as unhealthy, and that it is healthy when it is made again. It fails if a device that is allocated is
// left out when its object is gone.
func TestVirtualFunctionsComeAndGo(t *testing.T) {
	address := igb(t)
	configure(t, functions)
	m.Run(t, "echo 3 >/sys/bus/pci/devices/%s/sriov_numvfs", address)
	before := untilCount(t, vf, 3)
	got := hold(t, "pod", vf)
	if env := got.Settings.Envs["PCIDEVICE_ACCELMUX_IO_SRIOV"]; m.Try(t, "test -e /sys/bus/pci/devices/%s/physfn", env).Status != 0 {
		t.Errorf("the pod of %s has the function %q", got.Devices, env)
	}
	m.Run(t, "echo 0 >/sys/bus/pci/devices/%s/sriov_numvfs", address)
	untilList(t, vf, "!"+got.Devices[0])
	m.Run(t, "echo 3 >/sys/bus/pci/devices/%s/sriov_numvfs", address)
	untilList(t, vf, before...)
	m.Run(t, "echo 0 >/sys/bus/pci/devices/%s/sriov_numvfs", address)
	untilList(t, vf, "!"+got.Devices[0])
	release(t, "pod")
	untilCount(t, vf, 0)
}

// TestFunctionWhoseInterfaceIsInAPod verifies that a function is the same healthy device while its interface, or that of
// its physical function by which it is selected, is in another network namespace, also after a start of the agent, and
// that the others are still offered. It fails if what sysfs does not show in that time is taken for absent.
func TestFunctionWhoseInterfaceIsInAPod(t *testing.T) {
	address := igb(t)
	configure(t, functions)
	m.Run(t, "echo 2 >/sys/bus/pci/devices/%s/sriov_numvfs", address)
	before := untilCount(t, vf, 2)
	got := hold(t, "pod", vf)
	function := got.Settings.Envs["PCIDEVICE_ACCELMUX_IO_SRIOV"]
	// As a CNI plugin does. The function's interface goes back to the node with the namespace.
	name := m.Run(t, "ls /sys/bus/pci/devices/%s/net", function)
	t.Cleanup(func() { m.Try(t, "ip netns del pod; ip netns del other") })
	unchanged(t, vf, before, func() {
		m.Run(t, "ip netns add pod && ip link set %s netns pod && [ -z \"$(ls /sys/bus/pci/devices/%s/net)\" ]", name, function)
	})
	m.Run(t, "systemctl restart accelmux")
	untilList(t, vf, before...)
	unchanged(t, vf, before, func() {
		m.Run(t, "ip netns add other && ip link set eth0 netns other && ip -n other link set eth0 up")
	})
	m.Run(t, "ip -n other link set eth0 netns 1 && ip link set eth0 up && ip -n pod link set %s netns 1", name)
	untilList(t, vf, before...)
}

// TestFunctionForVFIO verifies that a virtual function that was given to vfio-pci stays the same device, and that a
// container opens its IOMMU group. It fails if a function gives no node of VFIO, or the ID has the driver.
func TestFunctionForVFIO(t *testing.T) {
	address := igb(t)
	configure(t, functions)
	m.Run(t, "echo 2 >/sys/bus/pci/devices/%s/sriov_numvfs", address)
	before := untilCount(t, vf, 2)
	for _, name := range []string{"virtfn0", "virtfn1"} {
		bind(t, m.Run(t, "basename $(readlink /sys/bus/pci/devices/%s/%s)", address, name), "vfio-pci")
	}
	scanned(t)
	untilList(t, vf, slices.Clone(before)...)
	got := hold(t, "vm", vf)
	node := group(t, got.Settings.Envs["PCIDEVICE_ACCELMUX_IO_SRIOV"])
	if text := opens(t, "vm", node, "/dev/vfio/vfio"); text != "" {
		t.Error(text)
	}
	if has := nodes(t, "vm"); len(has) != 2 {
		t.Errorf("the container of %s has %q", node, has)
	}
}
