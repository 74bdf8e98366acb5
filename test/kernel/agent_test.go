package kernel

import (
	"slices"
	"testing"

	"github.com/accelmux/accelmux/test/kernel/machine"
	"github.com/accelmux/accelmux/test/kernel/wire"
	"github.com/accelmux/accelmux/test/patience"
)

const serial = "example.com/serial"

// twoAdapters plugs in two serial adapters with one serial number, and returns what kubelet has of them. The one at the
// controller that a boot finds first has the second node, so that the kernel swaps the names at the next boot.
func twoAdapters(t *testing.T) []string {
	t.Helper()
	configure(t, standard)
	untilCount(t, serial, 0)
	// Of a plugin that ends, kubelet keeps the devices: the next scenario may start the agent again.
	t.Cleanup(func() { untilCount(t, serial, 0) })
	adapter(t, "right", "usb1", "1")
	untilCount(t, serial, 1)
	adapter(t, "left", "usb0", "1")
	return untilCount(t, serial, 2)
}

// untilSent waits for kubelet to receive a list of a resource, after the first changes of this life of the machine.
func untilSent(t *testing.T, from int, resource string, want ...string) {
	t.Helper()
	if !patience.Within(machine.Limit, func() bool {
		return slices.ContainsFunc(m.Changes(t, from), func(c wire.Change) bool {
			return c.Resource == resource && slices.Equal(c.Devices, want)
		})
	}) {
		t.Fatalf("kubelet received no list of %s with %q", resource, want)
	}
}

// earlier makes what is installed an earlier version of the deb: the agent and a backend are other files, and dpkg has
// another version.
func earlier(t *testing.T) {
	t.Helper()
	m.Run(t, `for program in /usr/bin/accelmux /usr/libexec/accelmux/accelmux-backend-device; do
			cp -p $program $program.earlier && echo >>$program.earlier && mv $program.earlier $program || exit
		done
		sed -i '/^Package: accelmux$/,/^$/s/^Version: .*/Version: 0.0.0~earlier/' /var/lib/dpkg/status
		systemctl restart accelmux`)
}

// TestUpgradeWithDevicesHeld verifies that kubelet has no other list during an upgrade of the deb, that a container keeps
// its device and can be started again with what it was given, and that the new agent knows who has what: of an adapter
// that is unplugged then, the container's stays as unhealthy. It fails if the package leaves the earlier agent running, or
// a device that is allocated is left out when its object is gone.
func TestUpgradeWithDevicesHeld(t *testing.T) {
	earlier(t)
	before := twoAdapters(t)
	got := hold(t, "pod", serial)
	node := nodes(t, "pod")[0]
	agent, from := process(t), len(m.Changes(t, 0))
	m.Run(t, "dpkg --force-unsafe-io --install /opt/accelmux.deb && ! dpkg --verify accelmux | grep -E '/usr/(bin|libexec)/'")
	untilSent(t, from, serial, before...)
	if now := process(t); now == agent {
		t.Errorf("the agent's process is %s, as before the upgrade", now)
	}
	if text := opens(t, "pod", node); text != "" {
		t.Error(text)
	}
	m.End(t, "pod")
	m.Start(t, "pod", got)
	if text := opens(t, "pod", node); text != "" {
		t.Error(text)
	}
	for _, c := range m.Changes(t, from) {
		if c.Resource == serial && !slices.Equal(c.Devices, before) {
			t.Errorf("kubelet's list was %q, and must stay %q", c.Devices, before)
		}
	}
	unplug(t, "left")
	unplug(t, "right")
	untilList(t, serial, "!"+got.Devices[0])
}

// TestRebootWithDevicesHeld verifies that after a reboot kubelet has the same healthy devices, and that the container of
// a pod, which kubelet starts again with what it was given before, has the node of the same adapter. It fails if the ID of a
// twin has the node's name.
func TestRebootWithDevicesHeld(t *testing.T) {
	before := twoAdapters(t)
	got, places := map[string]wire.Allocation{}, map[string]string{}
	for _, pod := range []string{"first", "second"} {
		got[pod] = hold(t, pod, serial)
		places[pod] = placeOf(t, nodes(t, pod)[0])
	}
	m.Reset(t)
	untilSent(t, 0, serial, before...)
	for pod, place := range places {
		again := hold(t, pod, serial)
		if !slices.Equal(again.Devices, got[pod].Devices) {
			t.Errorf("%s has %q, and had %q", pod, again.Devices, got[pod].Devices)
		}
		has := nodes(t, pod)
		if len(has) != 1 || opens(t, pod, has...) != "" {
			t.Fatalf("%s has %q: %s", pod, has, opens(t, pod, has...))
		}
		if now := placeOf(t, has[0]); now != place {
			t.Errorf("%s has the adapter at %s, and had that at %s", pod, now, place)
		}
	}
}

// TestFullStateDirectory verifies that with a full state directory a pod gets a device that its container can open, that
// an agent that is started meanwhile knows of it, and that it is free again afterwards. It fails if a device is only
// allocated once that is recorded, or an agent that starts does not add what kubelet lists.
func TestFullStateDirectory(t *testing.T) {
	const kvm = "example.com/kvm"
	configure(t, standard)
	untilCount(t, kvm, 1)
	// The agent sees what was mounted before it was started.
	m.Run(t, "systemctl stop accelmux && mount -t tmpfs -o size=1M,mode=0711 none /var/lib/accelmux && systemctl start accelmux")
	t.Cleanup(func() {
		m.Run(t, "systemctl stop accelmux && umount /var/lib/accelmux && systemctl start accelmux; modprobe kvm_amd")
	})
	id := untilCount(t, kvm, 1)[0]
	m.Run(t, "cat /dev/zero >/var/lib/accelmux/filler 2>/dev/null; ! echo more >/var/lib/accelmux/another")
	hold(t, "vm", kvm)
	if text := opens(t, "vm", "/dev/kvm"); text != "" {
		t.Error(text)
	}
	from := len(m.Changes(t, 0))
	m.Run(t, "systemctl restart accelmux")
	untilSent(t, from, kvm, id)
	m.Run(t, "modprobe --remove kvm_amd")
	untilList(t, kvm, "!"+id)
	release(t, "vm")
	untilCount(t, kvm, 0)
	m.Run(t, "modprobe kvm_amd")
	untilList(t, kvm, id)
	hold(t, "vm", kvm)
}
