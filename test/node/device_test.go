package node

import (
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/status/listing"
)

// Devices of this machine that are described: pods get the nodes of /dev/net/tun, which several
// share, of /dev/null, of /dev/fuse by a claim, and of /dev/kvm if there is one, and can open them; a
// loop device is refused.
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
          presets: [tun, kvm]
          kinds:
            - {name: fuse, match: {class: misc, names: [fuse]}, edits: {nodes: [{path: /dev/fuse}], env: {MDEV_RESOURCE_A-B: "{name}"}}}
            - {name: nothing, match: {class: mem, names: ["null"]}, edits: {nodes: [{path: "/dev/{name}", containerPath: /dev/nothing}]}}
            - {name: loop, match: {paths: [/dev/loop0]}}
        allow: {devices: [/dev/net/tun, /dev/fuse, /dev/null, /dev/kvm]}
    resources:
      - {name: devices.example/tun, class: tun, replicas: 2}
      - {name: devices.example/kvm, class: kvm}
      - {name: devices.example/nothing, selector: 'device.attributes["device"].kind == "nothing"'}
      - {name: devices.example/fuse, api: dra, selector: 'device.attributes["device"].kind == "fuse"'}
`, values{"deviceClasses": values{"extendedResourceNames": true}})
	n.wantCounts("devices.example/tun", 2, 2)
	n.wantProblem("loop0", "block device")
	for name, other := range map[string]v1.ResourceName{"one": "devices.example/nothing", "two": "devices.example/kvm"} {
		pod := newPod(name, "devices.example/tun", 1)
		pod.Spec.Containers[0].Resources.Limits[other] = resource.MustParse("1")
		n.create(pod)
	}
	n.wantReady("one")
	n.wantOpens("one", "/dev/net/tun", "a:c8")
	n.wantOpens("one", "/dev/nothing", "1:3")
	if _, err := os.Stat("/dev/kvm"); err == nil {
		n.wantReady("two")
		n.wantOpens("two", "/dev/net/tun", "a:c8")
		n.wantOpens("two", "/dev/kvm", "a:e8")
	} else {
		n.wantCounts("devices.example/kvm", 0, 0)
		n.wantUnschedulable("two")
		n.start("two-without", "devices.example/tun", 1)
	}
	n.start("three", "devices.example/fuse", 1)
	n.wantOpens("three", "/dev/fuse", "a:e5")
	if env := n.exec("three", "cat", "/proc/self/environ"); !strings.Contains(env, "MDEV_RESOURCE_A-B=fuse") {
		t.Errorf("the variable with a - is not in %q", env)
	}
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

// By both APIs a network interface is moved into its pod's container, which gets it again when it
// restarts, and back to the node. The containers of a pod that share a claim have it until the last
// ends. Its device stays listed meanwhile, also when the agent restarts.
func TestNetworkInterface(t *testing.T) {
	n := begin(t)
	resources := []string{"devices.example/bus0", "devices.example/bus2"}
	for _, name := range []string{"bus0", "bus2"} {
		n.must("ip", "link", "add", name, "up", "type", "veth", "peer", "name", name+"-peer")
		n.Cleanup(func() { n.must("sh", "-c", "! ip link show "+name+"-peer || ip link delete "+name+"-peer") })
	}
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
            - {name: bus, match: {class: net, names: [bus0, bus2]}, attributes: {interface: name}, edits: {netDevices: [{host: "{name}", name: data0}]}}
        allow: {netDevices: [bus0, bus2]}
    resources:
      - {name: devices.example/bus0, selector: 'device.attributes["device"].interface == "bus0"'}
      - {name: devices.example/bus2, api: dra, selector: 'device.attributes["device"].interface == "bus2"'}
`, values{"deviceClasses": values{"extendedResourceNames": true}})
	n.wantCounts(resources[0], 1, 1)
	n.create(newPod("bus0", resources[0], 1))
	claim := newClaim("bus2", 1, "")
	claim.Spec.Devices.Requests[0].Exactly.DeviceClassName = "bus2.devices.example"
	n.claim(claim)
	n.create(sharingPod("bus2"))
	for _, resource := range resources {
		name := path.Base(resource)
		n.wantReady(name)
		n.wantInterface(name)
		n.restartContainer(name)
		n.wantInterface(name)
	}
	before := n.report()
	n.kill("accelmux")
	n.wantReport("another agent serves", func(now status.Report) bool {
		return !now.StartedAt.Equal(before.StartedAt) && len(now.NotReady) == 0
	})
	n.eventually("it lists both devices as healthy and held", func() bool {
		known, err := devices(t.Context())
		known = slices.DeleteFunc(known, func(d listing.Device) bool { return d.Resource == "" || !d.Healthy || len(d.Holders) == 0 })
		return err == nil && len(known) == len(resources)
	})
	n.wantCounts(resources[0], 1, 1)
	for _, resource := range resources {
		name := path.Base(resource)
		n.restartContainer(name)
		n.wantInterface(name)
		if name == "bus2" {
			n.untilPod(name, "with a sidecar that kept the interface", func(pod *v1.Pod) bool {
				sidecar := pod.Status.InitContainerStatuses[1]
				return sidecar.RestartCount == 0 && sidecar.State.Running != nil
			})
		}
		n.delete(name)
		n.eventually("the node has "+name+" again, and it is up", func() bool {
			out, err := exec.Command("ip", "link", "show", name).Output()
			return err == nil && strings.Contains(string(out), "UP")
		})
		n.start(name+"-again", resource, 1)
		n.wantInterface(name + "-again")
	}
	n.wantCounts(resources[0], 1, 1)
}

// sharingPod has three containers that share a claim for an interface: one that ends, a sidecar that
// ends when it has lost the interface, and main.
func sharingPod(claim string) *v1.Pod {
	pod := claimingPod(claim, claim)
	always := v1.ContainerRestartPolicyAlways
	for name, command := range map[string]string{"init": "ip link show data0", "sidecar": "while ip link show data0 >/dev/null; do sleep 0.1; done"} {
		c := pod.Spec.Containers[0]
		c.Name, c.Command = name, []string{"sh", "-c", command}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	slices.SortFunc(pod.Spec.InitContainers, func(a, b v1.Container) int { return strings.Compare(a.Name, b.Name) })
	pod.Spec.InitContainers[1].RestartPolicy = &always
	return pod
}

// wantInterface checks that a pod's container has the interface data0, which is up.
func (n *node) wantInterface(pod string) {
	n.Helper()
	if out := n.exec(pod, "ip", "link", "show", "data0"); !strings.Contains(out, "UP") {
		n.Errorf("pod %s has no interface data0 that is up: %s", pod, out)
	}
}
