package kernel

import "testing"

// TestModulesLoadedLateAndUnloaded verifies that the node of a module that is loaded after the agent's start is offered
// and opens in a container, and is no longer offered when the module is unloaded; that a container keeps its unhealthy
// device meanwhile, and it is healthy when the module is back. It fails if modules' nodes are only read at the start.
func TestModulesLoadedLateAndUnloaded(t *testing.T) {
	const kvm = "example.com/kvm"
	m.Run(t, "modprobe --remove kvm_amd")
	configure(t, standard)
	untilCount(t, kvm, 0)
	m.Run(t, "modprobe kvm_amd")
	id := untilCount(t, kvm, 1)[0]
	hold(t, "vm", kvm)
	if text := opens(t, "vm", "/dev/kvm"); text != "" {
		t.Fatal(text)
	}
	m.Run(t, "modprobe --remove kvm_amd")
	untilList(t, kvm, "!"+id)
	m.Run(t, "modprobe kvm_amd")
	untilList(t, kvm, id)
	release(t, "vm")
	m.Run(t, "modprobe --remove kvm_amd")
	untilCount(t, kvm, 0)
	m.Run(t, "modprobe kvm_amd")
}

// TestStaticNodeLoadsItsModule verifies that a node that systemd has made before its module is loaded is offered, and
// that a container's first open loads the module. It fails if such a node is taken for one that a driver left behind.
func TestStaticNodeLoadsItsModule(t *testing.T) {
	m.Run(t, "if [ -e /sys/module/vhost_net ]; then modprobe --remove vhost_net; fi; test -e /dev/vhost-net")
	configure(t, standard)
	untilCount(t, "example.com/vhost-net", 1)
	hold(t, "vm", "example.com/vhost-net")
	if text := opens(t, "vm", "/dev/vhost-net"); text != "" {
		t.Fatal(text)
	}
	m.Run(t, "test -e /sys/module/vhost_net")
}
