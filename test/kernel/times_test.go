package kernel

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/accelmux/accelmux/test/kernel/machine"
)

// TestTimesFromEventToList prints the times of the table in README.md: from the kernel's event to the list that kubelet
// receives. It has no limits of time, as these depend on the machine; a list that does not change fails.
func TestTimesFromEventToList(t *testing.T) {
	configure(t, standard)
	const serial, vfio = "example.com/serial", "example.com/vfio"
	for _, resource := range []string{serial, vfio, can} {
		untilCount(t, resource, 0)
	}
	// The agent that was started again has read the hardware.
	m.Run(t, "modprobe kvm_amd")
	untilCount(t, "example.com/kvm", 1)
	timed(t, "USB adapter plugged in", serial, `^add usb-serial `, func() {
		adapter(t, "left", "usb0", "1")
		untilCount(t, serial, 1)
	})
	timed(t, "USB adapter unplugged", serial, `^remove usb-serial `, func() {
		unplug(t, "left")
		untilCount(t, serial, 0)
	})
	m.Run(t, "modprobe vfio-pci")
	if err := m.Add("pci-testdev", "function", machine.Args{"bus": "port0"}); err != nil {
		t.Fatal(err)
	}
	timed(t, "PCI function bound to vfio-pci", vfio, `^bind pci `, func() {
		m.Run(t, "cd /sys/bus/pci/devices; until d=$(grep -lx 0x0005 */device); do sleep 0.1; done; d=$(dirname $d); echo vfio-pci >$d/driver_override; echo $d >/sys/bus/pci/drivers_probe")
		untilCount(t, vfio, 1)
	})
	timed(t, "PCI function unplugged", vfio, `^remove pci `, func() {
		unplug(t, "function")
		untilCount(t, vfio, 0)
	})
	bus(t)
	id := untilCount(t, can, 1)[0]
	timed(t, "CAN interface set down", can, "", func() {
		m.Run(t, "ip link set can0 down")
		untilList(t, can, "!"+id)
	})
	timed(t, "CAN interface set up", can, "", func() {
		m.Run(t, "ip link set can0 up")
		untilList(t, can, id)
	})
	timed(t, "CAN card unplugged", can, `^remove net `, func() {
		unplug(t, "can")
		untilCount(t, can, 0)
	})
}

// timed prints the time from the last event that matches, or without one from the begin of what is done, to the last
// list of a resource.
func timed(t *testing.T, what, resource, event string, do func()) {
	t.Helper()
	known := len(m.Changes(t, 0))
	began, err := strconv.ParseInt(m.Run(t, "date +%%s%%N"), 10, 64) // by the guest's clock, as the lists are
	if err != nil {
		t.Fatal(err)
	}
	do()
	var at, list time.Time
	for _, c := range m.Changes(t, known) {
		switch {
		case c.Resource == resource:
			list = c.At
		case event != "" && regexp.MustCompile(event).MatchString(c.Uevent):
			at = c.At
		}
	}
	if event == "" {
		at = time.Unix(0, began)
	}
	if at.IsZero() || list.IsZero() {
		t.Errorf("%s: no event or no list in %v", what, m.Changes(t, known))
		return
	}
	t.Logf("| %s | %.1f s |", what, list.Sub(at).Seconds())
}
