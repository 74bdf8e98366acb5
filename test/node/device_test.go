package node

import (
	"strings"
	"testing"
)

// Devices of this machine that are described: pods get the nodes of /dev/net/tun, which several
// share, and of /dev/fuse by a claim, and can open them; a loop device is refused.
func TestDescribedDevices(t *testing.T) {
	n := begin(t)
	n.install(`
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: device
        settings:
          presets: [tun]
          kinds:
            - {name: fuse, match: {class: misc, names: [fuse]}}
            - {name: loop, match: {paths: [/dev/loop0]}}
        allow: {devices: [/dev/net/tun, /dev/fuse]}
    resources:
      - {name: devices.example/tun, class: tun, replicas: 2}
      - {name: devices.example/fuse, api: dra, selector: 'device.attributes["device"].kind == "fuse"'}
`, values{"deviceClasses": values{"extendedResourceNames": true}})
	n.wantCounts("devices.example/tun", 2, 2)
	n.wantProblem("loop0", "block device")
	for _, name := range []string{"one", "two"} {
		n.start(name, "devices.example/tun", 1)
		n.wantOpens(name, "/dev/net/tun", "a:c8")
	}
	n.start("three", "devices.example/fuse", 1)
	n.wantOpens("three", "/dev/fuse", "a:e5")
	n.restartContainer("three")
	n.wantOpens("three", "/dev/fuse", "a:e5")
	if out := n.exec("three", "sh", "-c", "ls /dev/net/tun || true"); strings.HasPrefix(out, "/dev") {
		t.Errorf("the pod with /dev/fuse has %s, too", out)
	}
}

// wantOpens checks that a pod's container has a node with this number, and may open it.
func (n *node) wantOpens(pod, path, number string) {
	n.Helper()
	if got := strings.TrimSpace(n.exec(pod, "sh", "-c", "exec 3<>"+path+" && stat -c %t:%T "+path)); got != number {
		n.Errorf("pod %s opens %s as %q, want %s", pod, path, got, number)
	}
}

// A network interface is moved into its pod's container, and its device stays listed meanwhile.
func TestNetworkInterface(t *testing.T) {
	n := begin(t)
	n.must("ip", "link", "add", "bus0", "type", "veth", "peer", "name", "bus1")
	n.Cleanup(func() { n.must("sh", "-c", "! ip link show bus1 || ip link delete bus1") })
	n.install(`
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: device
        settings:
          interval: 1s
          kinds:
            - {name: bus, match: {class: net, names: [bus0]}, edits: {netDevices: [{host: "{name}", name: data0}]}}
        allow: {netDevices: [bus0]}
    resources:
      - {name: devices.example/bus}
`)
	n.wantCounts("devices.example/bus", 1, 1)
	n.start("one", "devices.example/bus", 1)
	if out := n.exec("one", "ip", "link", "show", "data0"); !strings.Contains(out, "data0") {
		t.Errorf("the pod has no interface data0: %s", out)
	}
	n.wantCounts("devices.example/bus", 1, 1)
	n.delete("one")
	n.wantCounts("devices.example/bus", 0, 0) // a virtual interface ends with its namespace
}
