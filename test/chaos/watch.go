package main

import (
	"fmt"
	"sync"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
)

// watch looks at everything that kubelet is told, as it is told: what must not be even
// for a moment is not seen by looking now and then.
type watch struct {
	mu sync.Mutex
	// stuck are devices with a fault that kubelet knows and that nothing has mended.
	stuck map[string]string
	// floor is the least that a resource may have of healthy units.
	floor map[string]int
	// incidents are what was seen, by the name of the invariant; the first of each.
	incidents map[string]string
	// recent are the last events, for a report.
	recent []string
}

func newWatch() *watch {
	return &watch{stuck: map[string]string{}, floor: map[string]int{}, incidents: map[string]string{}}
}

// devices is kubelettest.Options.OnDevices.
func (w *watch) devices(resource string, list []*pluginapi.Device) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range list {
		id, _ := deviceOf(d.GetID())
		if fault, ok := w.stuck[id]; ok && d.GetHealth() == pluginapi.Healthy {
			w.incident(faultSticks, fmt.Sprintf("%s of %s is healthy again, though its fault (%s) was not mended", d.GetID(), resource, fault))
		}
	}
}

// event is kubelettest.Options.OnEvent.
func (w *watch) event(e kubelettest.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.recent = append(w.recent, fmt.Sprintf("%s %s %s healthy %d of %d %s %v %v", e.At.Format("15:04:05.000"), e.Type, e.Resource,
		e.Allocatable, e.Capacity, e.Pod, e.Devices, e.Err)); len(w.recent) > 60 {
		w.recent = w.recent[1:]
	}
	if floor, ok := w.floor[e.Resource]; ok && e.Allocatable < floor {
		w.incident(othersUntouched, fmt.Sprintf("%s dipped to %d healthy units of %d, though nothing happened to it (%s)", e.Resource, e.Allocatable, floor, e.Type))
	}
}

// incident notes what must not be; mu is held.
func (w *watch) incident(name, what string) {
	if _, known := w.incidents[name]; !known {
		w.incidents[name] = what
	}
}

// seen are the incidents so far.
func (w *watch) seen() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string]string{}
	for name, what := range w.incidents {
		all[name] = what
	}
	return all
}

// spare ends the watching of resources whose capacity may change now.
func (w *watch) spare(resources ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range resources {
		delete(w.floor, r)
	}
}

func (w *watch) spareAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.floor)
}

// mending ends the watching of a device whose fault may go now.
func (w *watch) mending(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.stuck, id)
}

// mendingAll is mending for all devices.
func (w *watch) mendingAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.stuck)
}

// rest sets what must hold from now on until something happens.
func (w *watch) rest(floor map[string]int, stuck map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.floor, w.stuck = floor, stuck
}
