package main

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/test/devicemanager/wire"
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
	// epoch counts the changes of stuck and floor by rest; last is what a real kubelet
	// knew when it was last asked.
	epoch int
	last  map[string]wire.Resource
}

func newWatch() *watch {
	return &watch{stuck: map[string]string{}, floor: map[string]int{}, incidents: map[string]string{}}
}

// devices is kubelettest.Options.OnDevices.
func (w *watch) devices(resource string, list []*pluginapi.Device) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range list {
		if d.GetHealth() == pluginapi.Healthy {
			w.healthy(resource, d.GetID())
		}
	}
}

// healthy takes note of a unit that kubelet takes for healthy; mu is held.
func (w *watch) healthy(resource, unit string) {
	id, _ := deviceOf(unit)
	if fault, ok := w.stuck[id]; ok {
		w.incident(faultSticks, fmt.Sprintf("%s of %s is healthy again, though its fault (%s) was not mended", unit, resource, fault))
	}
}

// now is for sample: what is asked after it is no older than what must hold then.
func (w *watch) now() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.epoch
}

// sample is for a kubelet that does not tell by itself: what it knew after the epoch.
func (w *watch) sample(epoch int, all map[string]wire.Resource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r, before := all[name], w.last[name]
		if !slices.Equal(r.Healthy, before.Healthy) || !slices.Equal(r.Unhealthy, before.Unhealthy) {
			w.note(fmt.Sprintf("%s %s healthy %v, unhealthy %v", time.Now().Format("15:04:05.000"), name, r.Healthy, r.Unhealthy))
		}
	}
	w.last = all
	if epoch != w.epoch {
		return // it may be of before what must hold now
	}
	for resource, floor := range w.floor {
		if have := len(all[resource].Healthy); have < floor {
			w.dipped(resource, have, floor, "asked")
		}
	}
	for resource, r := range all {
		for _, unit := range r.Healthy {
			w.healthy(resource, unit)
		}
	}
}

// event is kubelettest.Options.OnEvent.
func (w *watch) event(e kubelettest.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(fmt.Sprintf("%s %s %s healthy %d of %d %s %v %v", e.At.Format("15:04:05.000"), e.Type, e.Resource,
		e.Allocatable, e.Capacity, e.Pod, e.Devices, e.Err))
	if floor, ok := w.floor[e.Resource]; ok && e.Allocatable < floor {
		w.dipped(e.Resource, e.Allocatable, floor, string(e.Type))
	}
}

// remark keeps a line of a step's for a report.
func (w *watch) remark(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(time.Now().Format("15:04:05.000 ") + line)
}

// note keeps a line for a report; mu is held.
func (w *watch) note(line string) {
	if w.recent = append(w.recent, line); len(w.recent) > 60 {
		w.recent = w.recent[1:]
	}
}

// dipped notes that a resource has less than it must have; mu is held.
func (w *watch) dipped(resource string, have, floor int, when string) {
	w.incident(othersUntouched, fmt.Sprintf("%s dipped to %d healthy units of %d, though nothing happened to it (%s)", resource, have, floor, when))
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
	w.epoch++
}
