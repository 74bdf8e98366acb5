package deviceplugin

import (
	"fmt"
	"slices"
	"testing"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/test/patience"
)

// Kubelet gets a list only if it differs for kubelet: each update makes it
// write its whole checkpoint.
func TestOnlyRealChangesAreSent(t *testing.T) {
	n := startNode(t, fast)
	n.plugin.Publish(table(gpus(3), nil), allNames{})
	n.waitAllocatable(3)

	same := gpus(3)
	same[0].Edits.Env = inventory.Named(map[string]string{"OTHER": "1"})
	same[1].Health = inventory.Health{State: inventory.StateUnknown, Message: "new text"}
	slices.Reverse(same)
	before := n.kubelet.State().Resources[gpu].Updates
	for range 20 {
		n.plugin.Publish(table(same, nil), allNames{})
	}
	n.plugin.Publish(table(gpus(4), nil), allNames{})
	n.waitAllocatable(4)
	if got := n.kubelet.State().Resources[gpu].Updates - before; got != 1 {
		t.Errorf("%d lists were sent for one change", got)
	}
}

// A fault goes out ahead of the interval between lists; recoveries keep to it.
func TestPace(t *testing.T) {
	in := &instance{advert: &advert{timing: Timing{MinInterval: 50 * time.Minute}}}
	of := func(devices ...*inventory.Device) *pluginapi.ListAndWatchResponse {
		return newView(table(devices, nil).Resources[0], allNames{}, nil).list
	}
	a, b := device("a"), device("b")
	for name, tc := range map[string]struct {
		sent, list *pluginapi.ListAndWatchResponse
		want       time.Duration
	}{
		"nothing new":   {of(a, b), of(b, a), never},
		"another node":  {of(a, b), of(a, device("b", 7)), 50 * time.Minute},
		"a fault":       {of(a, b), of(a, broken(b)), 10 * time.Minute},
		"one is gone":   {of(a, b), of(b), 10 * time.Minute},
		"swapped":       {of(a), of(b), 10 * time.Minute},
		"one is back":   {of(broken(a), b), of(a, b), 50 * time.Minute},
		"one is new":    {of(a), of(a, b), 50 * time.Minute},
		"a broken left": {of(a, broken(b)), of(a), 50 * time.Minute},
		"fault and new": {of(a), of(broken(a), b), 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			got := in.pace(tc.sent, tc.list, time.Now())
			if got > tc.want || got < tc.want-patience.Long {
				t.Errorf("waits %v, want %v", got, tc.want)
			}
			if first := in.pace(nil, tc.list, time.Time{}); first != 0 {
				t.Errorf("the first list waits %v", first)
			}
		})
	}
}

// A device without its CDI definition on disk must not be handed out. Why it has none is
// in its verdict, which whoever publishes the table makes.
func TestNoCDIName(t *testing.T) {
	for name, tc := range map[string]struct {
		injection config.Injection
		healthy   int
	}{
		"cdi":         {config.InjectCDI, 2},
		"annotations": {config.InjectCDIAnnotations, 2},
		"plain":       {config.InjectPlain, 3},
	} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, fast)
			tab := table(gpus(3), func(r *resource.Resource) { r.Injection = tc.injection })
			n.plugin.Publish(tab, allNames{"gpu-1"})
			n.waitAllocatable(tc.healthy)
			n.waitStatus("the count", func(s Status) bool { return s.Unhealthy == 3-tc.healthy })
			// The same table again, with the name that was missing.
			n.plugin.Publish(tab, allNames{})
			n.waitAllocatable(3)
		})
	}
	if v := newView(table(gpus(1), nil).Resources[0], nil, nil); v.healthy != 0 {
		t.Error("a device is healthy without any names")
	}
}

// Verifies that each unit is there once, and found by its ID, in whatever order a resource
// has them.
func TestUnitsByID(t *testing.T) {
	r := table([]*inventory.Device{device("c"), broken(device("a")), device("b"), device("c", 1), device("a")}, nil).Resources[0]
	v := newView(r, allNames{}, nil)
	if v.healthy != 2 || v.unhealthy != 1 || len(v.notes) != 2 {
		t.Errorf("%d healthy, %d unhealthy, notes %q", v.healthy, v.unhealthy, v.notes)
	}
	for id, want := range map[string]*inventory.Device{"a": r.Devices[1].Device, "b": r.Devices[2].Device, "c": r.Devices[0].Device, "d": nil, "": nil} {
		if u, ok := v.unit(id); ok != (want != nil) || ok && u.Device != want {
			t.Errorf("%q: found %v", id, ok)
		}
	}
}

// More than fits into kubelet's 4 MiB is cut, with a note, and not the end of
// the stream.
func TestTooManyDevices(t *testing.T) {
	n := startNode(t, fast)
	var devices []*inventory.Device
	for i := range 60_000 {
		devices = append(devices, device(fmt.Sprintf("GPU-%059d", i), 0)) // the longest ID that there is
	}
	n.plugin.Publish(table(devices, nil), allNames{})
	n.waitFor("a list", func(s kubelettest.State) bool { return s.Resources[gpu].Updates > 0 })
	if got := n.kubelet.Allocatable(gpu); got < 50_000 || got >= 55_000 {
		t.Errorf("%d devices fit", got)
	}
	n.waitStatus("a note", func(s Status) bool { return hasNote(s, "not advertised") && s.State == StateServing })
	n.plugin.Publish(table(devices[:10], nil), allNames{})
	n.waitAllocatable(10)
	if c := n.kubelet.State().Counts; c.Broken != 0 || c.Registered != 1 {
		t.Errorf("the stream broke: %+v", c)
	}
}

// When options change, kubelet must ask for them again, which takes another
// connection. Capacity is the same at every moment of that.
func TestOptionsChangeWithoutDip(t *testing.T) {
	for name, legacy := range map[string]bool{"1.37": false, "1.36": true} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, fast, legacy)
			n.startKubelet()
			n.run()
			devices := gpus(4)
			n.plugin.Publish(table(devices, nil), allNames{})
			n.waitAllocatable(4)
			mark := len(n.recorded())

			for i, d := range devices {
				devices[i] = hooked(d)
			}
			n.plugin.Publish(table(devices, nil), allNames{})
			n.waitFor("the new options", func(s kubelettest.State) bool { return s.Resources[gpu].PreStartRequired })
			successor := n.kubelet.State().Resources[gpu].Socket
			n.waitFor("the list again", func(s kubelettest.State) bool { return s.Resources[gpu].Updates >= 3 })
			devices[0] = broken(devices[0])
			n.plugin.Publish(table(devices, nil), allNames{})
			n.waitAllocatable(3)

			talked := false
			for _, e := range n.recorded()[mark:] {
				switch {
				case e.Allocatable < 3 || e.Capacity != 4:
					t.Errorf("a dip: %+v", e)
				case e.Type == kubelettest.EventBroken:
					t.Errorf("a stream broke: %+v", e)
				case e.Type != kubelettest.EventDevices:
				case e.Socket == successor:
					talked = true
				case talked:
					t.Errorf("the predecessor talks after its successor: %+v", e)
				}
			}
			if _, err := n.kubelet.Allocate(t.Context(), "p", "c", gpu, 1); err != nil {
				t.Error(err)
			}
			// The predecessor goes when kubelet lets go of it.
			if err := n.kubelet.Restart(); err != nil {
				t.Fatal(err)
			}
			n.waitAllocatable(3)
			n.waitStatus("one socket", func(Status) bool { return len(n.sockets()) == 1 })
		})
	}
}

// Verifies that a list is sent again though nothing changed, which has kubelet write its
// checkpoint.
func TestRepeat(t *testing.T) {
	n := startNode(t, fast)
	n.plugin.Repeat() // nothing is registered yet
	n.plugin.Publish(table(gpus(2), nil), allNames{})
	n.waitAllocatable(2)
	n.waitStatus("serving", func(s Status) bool { return s.State == StateServing })
	before := n.kubelet.State().Resources[gpu].Updates
	n.plugin.Repeat()
	n.waitFor("another list", func(s kubelettest.State) bool {
		r := s.Resources[gpu]
		return r.Updates > before && r.Allocatable == 2
	})
}

// Verifies that a resource which another API serves has an empty list, that a container with one
// of its devices is still prepared before a start, and that the option PreStartContainer, with which
// kubelet starts no container of the other API, goes when no such device is left.
func TestWithheld(t *testing.T) {
	n := newNode(t, fast, false)
	n.startKubelet()
	n.run()
	devices := []*inventory.Device{hooked(device("gpu-0")), hooked(device("gpu-1"))}
	n.plugin.Publish(table(devices, nil), allNames{})
	n.waitAllocatable(2)
	held, err := n.kubelet.Allocate(t.Context(), "p", "c", gpu, 1)
	if err != nil {
		t.Fatal(err)
	}
	withheld := func(r *resource.Resource) { r.Withheld = true }
	// Kubelet chooses either device.
	kept := []*inventory.Device{hooked(device(held.Devices[0]))}
	n.plugin.Publish(table(kept, withheld), allNames{})
	n.waitFor("the empty list", func(s kubelettest.State) bool { return s.Resources[gpu].Capacity == 0 })
	if state := n.kubelet.State().Resources[gpu]; !state.PreStartRequired {
		t.Error("the option went while a container has a device")
	}
	if _, err := n.kubelet.StartContainer(t.Context(), "p", "c"); err != nil {
		t.Errorf("the container is started again: %v", err)
	}
	n.plugin.Publish(table(nil, withheld), allNames{})
	n.waitFor("the end of the option", func(s kubelettest.State) bool {
		return !s.Resources[gpu].PreStartRequired && s.Resources[gpu].Capacity == 0
	})
	n.plugin.Publish(table(devices, nil), allNames{})
	n.waitFor("all devices", func(s kubelettest.State) bool {
		return s.Resources[gpu].PreStartRequired && s.Resources[gpu].Capacity == 2
	})
}
