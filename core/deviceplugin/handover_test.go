package deviceplugin

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/core/resource"
)

// handOver moves a resource that is registered by socket to the watcher, and back,
// count times in all, and each time waits until kubelet has the list from there.
func (n *node) handOver(from, count int) {
	n.t.Helper()
	kinds := []config.Registration{config.RegisterWatcher, config.RegisterSocket}
	dirs := []string{n.kubelet.RegistryDir(), n.kubelet.PluginDir()}
	for i := from; i < from+count; i++ {
		// A predecessor's list may still be on its way.
		known := map[string]bool{}
		for _, e := range n.recorded() {
			known[e.Socket] = true
		}
		n.plugin.Publish(table(gpus(4), func(r *resource.Resource) { r.Registration = kinds[i%2] }), allNames{})
		n.waitStatus(fmt.Sprintf("handover %d", i), func(Status) bool {
			return slices.ContainsFunc(n.recorded(), func(e kubelettest.Event) bool {
				return e.Type == kubelettest.EventDevices && !known[e.Socket] && e.Healthy == 4 && filepath.Dir(e.Socket) == dirs[i%2]
			})
		})
	}
}

// Handover after handover costs no capacity, and none waits for a back-off, which
// is for failures: here it is longer than the test.
func TestHandoversWithoutDip(t *testing.T) {
	for name, legacy := range map[string]bool{"1.37": false, "1.36": true} {
		t.Run(name, func(t *testing.T) {
			timing := fast
			timing.Backoff, timing.MaxBackoff, timing.Connect = time.Hour, time.Hour, time.Hour
			n := newNode(t, timing, legacy)
			n.startKubelet()
			n.run()
			n.plugin.Publish(table(gpus(4), nil), allNames{})
			n.waitAllocatable(4)
			// One failure, which is over.
			before := n.waitStatus("serving", func(s Status) bool { return s.Socket != "" && s.Registrations == 1 }).Socket
			if err := os.Remove(before); err != nil {
				t.Fatal(err)
			}
			n.waitStatus("another socket", func(s Status) bool { return s.Socket != before && s.Registrations == 2 })
			mark := len(n.recorded())
			n.handOver(0, 8)
			for _, e := range n.recorded()[mark:] {
				if e.Allocatable != 4 || e.Type == kubelettest.EventBroken {
					t.Errorf("a dip: %+v", e)
				}
			}
			// Kubelet lets go of all of them.
			if err := n.kubelet.Restart(); err != nil {
				t.Fatal(err)
			}
			n.waitAllocatable(4)
			n.waitStatus("one socket", func(Status) bool { return len(n.sockets()) == 1 })
		})
	}
}

// What kubelet holds on to is bounded. With a kubelet up to 1.36 going by the
// bound takes the devices away, but the successor gives them back.
func TestHandoversAreBounded(t *testing.T) {
	for name, legacy := range map[string]bool{"1.37": false, "1.36": true} {
		t.Run(name, func(t *testing.T) {
			timing := fast
			timing.Connect = time.Hour
			if legacy {
				timing.Grace = 3 * time.Second // in which kubelet's watcher must see what vanished
			}
			n := newNode(t, timing, legacy)
			n.startKubelet()
			n.run()
			n.plugin.Publish(table(gpus(4), nil), allNames{})
			n.waitAllocatable(4)
			n.handOver(0, maxOld)
			if c := n.kubelet.State().Counts; c.Broken != 0 {
				t.Fatalf("%d streams broke within the bound", c.Broken)
			}
			n.waitStatus("all sockets", func(Status) bool { return len(n.sockets()) == maxOld+1 })
			mark := len(n.recorded())
			n.handOver(maxOld, 1)
			n.waitStatus("the oldest is gone", func(Status) bool { return len(n.sockets()) <= maxOld+1 })
			registered := false
			for _, e := range n.recorded()[mark:] {
				registered = registered || e.Type == kubelettest.EventRegistered
				if legacy && registered && e.Type == kubelettest.EventBroken {
					t.Errorf("after the successor was registered: %+v", e)
				}
				if !legacy && e.Allocatable != 4 {
					t.Errorf("a dip: %+v", e)
				}
			}
			n.handOver(maxOld+1, 1)
			n.waitStatus("served", func(s Status) bool { return s.State == StateServing && len(n.sockets()) <= maxOld+1 })
			n.waitAllocatable(4)
		})
	}
}
