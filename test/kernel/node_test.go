package kernel

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/kernel/machine"
	"github.com/accelmux/accelmux/test/kernel/wire"
	"github.com/accelmux/accelmux/test/patience"
)

// configuration is a node configuration of the described devices: settings are a flow mapping, allow are patterns of
// nodes, and resources are by name, each with its fields.
func configuration(settings, allow string, resources ...string) string {
	return fmt.Sprintf(`apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
- name: default
  backends:
  - {name: device, settings: {%s}, allow: {devices: [%s]}}
  resources:
  - %s`, settings, allow, strings.Join(resources, "\n  - "))
}

// standard is the configuration of most scenarios: one start of the backend serves them all.
var standard = configuration("presets: [serial, sound, kvm, vhost-net, vfio-pci, socketcan, video4linux]",
	`/dev/kvm, /dev/vhost-net, "/dev/ttyUSB[0-9]*", "/dev/ttyACM[0-9]*", "/dev/vfio/*", "/dev/vfio/devices/*", "/dev/snd/*"`,
	"{name: example.com/serial, class: serial}", "{name: example.com/sound, class: sound}", "{name: example.com/kvm, class: kvm}",
	"{name: example.com/vhost-net, class: vhost-net}", "{name: example.com/vfio, class: vfio-pci}",
	"{name: example.com/can, class: socketcan}", "{name: example.com/camera, class: video4linux}")

// inForce is the node's configuration.
var inForce string

// configure gives the node a configuration, if it does not have it. What the agent says of itself is only shown.
func configure(t *testing.T, text string) {
	t.Helper()
	if text != inForce {
		m.Write(t, "/etc/accelmux/node.yaml", text)
		inForce = text
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(m.Try(t, "accelmux status; journalctl --no-pager --unit accelmux --lines 40; dmesg | tail -n 20").Text)
		}
	})
}

// ids are kubelet's devices of a resource, unhealthy ones with a "!" in front.
func ids(t *testing.T, resource string) []string {
	t.Helper()
	var all []string
	for _, d := range m.Devices(t, resource) {
		id := d.ID
		if !d.Healthy {
			id = "!" + id
		}
		all = append(all, id)
	}
	return all
}

// until waits for kubelet's list of a resource to fulfil a condition.
func until(t *testing.T, resource, what string, condition func(ids []string) bool) []string {
	t.Helper()
	var last []string
	if !patience.Within(machine.Limit, func() bool {
		last = ids(t, resource)
		return condition(last)
	}) {
		t.Fatalf("%s: %s, kubelet has %q", resource, what, last)
	}
	return last
}

// untilCount waits for kubelet to have a number of devices of a resource, all of them healthy.
func untilCount(t *testing.T, resource string, count int) []string {
	t.Helper()
	return until(t, resource, fmt.Sprintf("want %d healthy devices", count), func(ids []string) bool {
		return len(ids) == count && !slices.ContainsFunc(ids, unhealthy)
	})
}

func unhealthy(id string) bool { return strings.HasPrefix(id, "!") }

// untilList waits for kubelet to have these devices of a resource; a "!" in front is an unhealthy one.
func untilList(t *testing.T, resource string, want ...string) {
	t.Helper()
	slices.Sort(want)
	until(t, resource, fmt.Sprintf("want %q", want), func(ids []string) bool {
		slices.Sort(ids)
		return slices.Equal(ids, want)
	})
}

// hold admits a pod with one device of a resource, and starts its container. Both end with the test. Kubelet's list may be
// older than what the agent has seen by now: a pod that is refused is created again, as a controller does.
func hold(t *testing.T, pod, resource string) (got wire.Allocation) {
	t.Helper()
	var err error
	if !patience.Within(machine.Limit, func() bool {
		if got, err = m.Allocate(t, pod, resource, 1); err != nil {
			m.Free(t, pod)
		}
		return err == nil
	}) {
		t.Fatalf("admit %s: %v", pod, err)
	}
	t.Cleanup(func() { release(t, pod) })
	m.Start(t, pod, got)
	return got
}

// untilSame starts containers until each ID gives what it gave before. Where names were swapped kubelet's list stays as it
// is, so that nothing else shows when the agent has seen the change.
func untilSame(t *testing.T, before map[string]string, byID func() map[string]string) {
	t.Helper()
	var now map[string]string
	if !patience.Within(machine.Limit, func() bool {
		now = byID()
		return maps.Equal(before, now)
	}) {
		t.Errorf("by ID: %v before, %v now", before, now)
	}
}

// release ends a pod and its container, if they are there.
func release(t *testing.T, pod string) {
	t.Helper()
	m.End(t, pod)
	m.Free(t, pod)
}

// opens runs a container that opens nodes, and returns why one of them cannot be.
func opens(t *testing.T, pod string, nodes ...string) string {
	t.Helper()
	if out := m.Try(t, "runc exec %s /bin/guest open %s", pod, strings.Join(nodes, " ")); out.Status != 0 {
		return out.Text
	}
	return ""
}

// nodes are the character devices below /dev that a container has beyond runc's own.
func nodes(t *testing.T, pod string) []string {
	t.Helper()
	return strings.Fields(m.Run(t, `runc exec %s find /dev -type c | grep -vE '^/dev/(null|zero|full|random|urandom|tty|ptmx|pts/.*|console)$' || true`, pod))
}

// plug adds a device, which is unplugged again at the end.
func plug(t *testing.T, driver, id string, args machine.Args) {
	t.Helper()
	if err := m.Add(driver, id, args); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !m.Deleted(id) {
			unplug(t, id)
		}
	})
}

// unplug asks for a device to be taken out, and waits until it is.
func unplug(t *testing.T, id string) {
	t.Helper()
	if err := m.Delete(id); err != nil {
		t.Fatal(err)
	}
	if !patience.Within(machine.Limit, func() bool { return m.Deleted(id) }) {
		t.Fatalf("the guest does not let go of %s\n%s", id, m.Console())
	}
}
