package kernel

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/kernel/machine"
)

// kinds is the example of a configuration with kinds that no preset has.
func kinds(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../deployments/examples/kinds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// nodesByID starts a container with each device of a resource, opens all nodes there, and returns these, sorted, by ID.
func nodesByID(t *testing.T, resource string, count int) map[string]string {
	t.Helper()
	all := map[string]string{}
	for i := range count {
		pod := fmt.Sprintf("pod%d", i)
		got := hold(t, pod, resource)
		has := nodes(t, pod)
		slices.Sort(has)
		if len(has) > 0 {
			if text := opens(t, pod, has...); text != "" {
				t.Fatalf("%s: %s", got.Devices, text)
			}
		}
		all[got.Devices[0]] = strings.Join(has, " ")
	}
	for i := range count {
		release(t, fmt.Sprintf("pod%d", i))
	}
	return all
}

// byID is nodesByID with what a command of the shell prints for the name of the last node.
func byID(t *testing.T, resource string, count int, command string) map[string]string {
	t.Helper()
	all := nodesByID(t, resource, count)
	for id, has := range all {
		all[id] = m.Run(t, "name=%s; %s", has[strings.LastIndexByte(has, '/')+1:], command)
	}
	return all
}

// changed fails if what a command prints is as it was: the kernel has not counted otherwise, and nothing was tried.
func changed(t *testing.T, before, command string) {
	t.Helper()
	if now := m.Run(t, "%s", command); now == before {
		t.Fatalf("the kernel has given the same numbers again: %s", now)
	}
}

// without is a list with one of its devices as unhealthy.
func without(list []string, id string) []string {
	list = slices.Clone(list)
	list[slices.Index(list, id)] = "!" + id
	return list
}

// TestI2CAdaptersProbedInAnotherOrder verifies that an I2C adapter on PCI has the same ID when the kernel counts it after
// another one, and that a container gets its node. It fails if the ID has the number of a bus.
func TestI2CAdaptersProbedInAnotherOrder(t *testing.T) {
	const i2c = "devices.example/i2c"
	configure(t, kinds(t))
	t.Cleanup(func() { m.Try(t, "modprobe --remove --all i2c-stub i2c-dev; modprobe i2c-i801") })
	m.Run(t, "modprobe --remove i2c-i801; modprobe i2c-dev")
	ids := map[string]bool{}
	for _, load := range []string{"modprobe i2c-i801; modprobe i2c-stub chip_addr=0x50", "modprobe i2c-stub chip_addr=0x50; modprobe i2c-i801"} {
		m.Run(t, "%s", load)
		untilCount(t, i2c, 2)
		for id, adapter := range byID(t, i2c, 2, "cat /sys/class/i2c-dev/$name/name") {
			if strings.HasPrefix(adapter, "SMBus I801 adapter") {
				ids[id] = true
			}
		}
		m.Run(t, "modprobe --remove --all i2c-i801 i2c-stub")
		// The function is still plugged in, without a driver.
		until(t, i2c, "want the adapter on PCI as unhealthy", func(list []string) bool { return len(list) == 1 && unhealthy(list[0]) })
	}
	if len(ids) != 1 {
		t.Errorf("the adapter has the IDs %v", ids)
	}
}

// TestDriveIsGivenToNoContainer verifies that the node for commands to an NVMe drive is not offered under other names, which
// a kind and allow have: a link to it, and a second node with its numbers. It fails if only the names count.
func TestDriveIsGivenToNoContainer(t *testing.T) {
	const drive = "example.com/drive"
	configure(t, configuration(`presets: [kvm], kinds: [{name: drive, match: {class: nvme-generic, names: ["ng[0-9]*"]}, edits: {nodes: [{path: "/dev/other-{name}"}]}}]`,
		`"/dev/other-*", /dev/kvm`, "{name: example.com/kvm, class: kvm}", "{name: "+drive+", class: other}"))
	if _, err := m.Command("blockdev-add", machine.Args{"driver": "null-co", "node-name": "drive", "size": 1 << 20, "read-zeroes": true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := m.Command("blockdev-del", machine.Args{"node-name": "drive"}); err != nil {
			t.Error(err)
		}
	})
	plug(t, "nvme", "nvme", machine.Args{"bus": "port0", "drive": "drive", "serial": "left"})
	t.Cleanup(func() { m.Run(t, "rm -f /dev/other-*") })
	for _, other := range []string{"ln -s $n other-$n", "mknod other-$n c $(stat -c '0x%t 0x%T' $n)"} {
		until(t, drive, "want a device without a node", func(ids []string) bool { return len(ids) == 1 && unhealthy(ids[0]) })
		m.Run(t, "cd /dev; n=$(ls -d ng[0-9]*); %s", other)
		untilList(t, drive)
		unchanged(t, drive, nil, func() {})
		m.Run(t, "rm /dev/other-*")
	}
}

// TestRenderNodesProbedInAnotherOrder verifies that the render nodes of two GPUs keep their IDs when their drivers are
// loaded the other way round, and that a container gets the node of its GPU. It fails if the ID has a node's number.
func TestRenderNodesProbedInAnotherOrder(t *testing.T) {
	const render, numbers = "devices.example/render", "until [ $(ls -d /dev/dri/renderD* | wc -l) = 2 ]; do sleep 0.1; done; realpath /sys/class/drm/renderD*"
	const gpu = "realpath /sys/class/drm/$name/device"
	configure(t, kinds(t))
	t.Cleanup(func() { m.Try(t, "modprobe --remove --all vgem virtio-gpu") })
	// A console on a GPU would keep its driver.
	m.Run(t, "modprobe drm_kms_helper fbdev_emulation=0; modprobe vgem; modprobe virtio-gpu")
	counted := m.Run(t, numbers)
	before := untilCount(t, render, 2)
	gpus := byID(t, render, 2, gpu)
	m.Run(t, "modprobe --remove --all vgem virtio-gpu; modprobe virtio-gpu; modprobe vgem")
	changed(t, counted, numbers)
	untilList(t, render, before...)
	untilSame(t, gpus, func() map[string]string { return byID(t, render, 2, gpu) })
}

// TestHCAsMadeInAnotherOrder verifies that the HCAs of Soft RoCE on two interfaces keep their IDs when they are made the
// other way round, that a container gets the verbs node of its own, and that one is unhealthy while its interface is
// down, or while it is gone and a container has it. It fails if a node is kept with the device.
func TestHCAsMadeInAnotherOrder(t *testing.T) {
	const hca, numbers = "devices.example/soft-roce", "grep . /sys/class/infiniband_verbs/uverbs*/ibdev"
	const link = "rdma link add rxe-%[1]s type rxe netdev %[1]s"
	const parent = "cat /sys/class/infiniband/$(cat /sys/class/infiniband_verbs/$name/ibdev)/parent"
	configure(t, kinds(t))
	untilCount(t, hca, 0)
	t.Cleanup(func() { m.Try(t, "ip link delete left; ip link delete right") }) // and their HCAs
	m.Run(t, "modprobe --all ib_uverbs rdma_ucm; for n in left right; do ip link add $n type dummy && ip link set $n up; done")
	m.Run(t, link, "left")
	m.Run(t, link, "right")
	counted := m.Run(t, numbers)
	before := untilCount(t, hca, 2)
	interfaces := byID(t, hca, 2, parent)
	m.Run(t, "rdma link delete rxe-left; rdma link delete rxe-right")
	m.Run(t, link, "right")
	m.Run(t, link, "left")
	changed(t, counted, numbers)
	untilList(t, hca, before...)
	untilSame(t, interfaces, func() map[string]string { return byID(t, hca, 2, parent) })
	got := hold(t, "pod", hca)
	held, list := interfaces[got.Devices[0]], without(before, got.Devices[0])
	m.Run(t, "ip link set %s down", held)
	untilList(t, hca, list...)
	m.Run(t, "ip link set %s up", held)
	untilList(t, hca, before...)
	m.Run(t, "rdma link delete rxe-%s", held)
	untilList(t, hca, list...)
	m.Run(t, link, held)
	untilList(t, hca, before...)
}
