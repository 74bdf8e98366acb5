package main

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"unsafe"

	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"

	"github.com/accelmux/accelmux/test/kubelet/manager/wire"
)

// resourcesOf reads the device manager's own books: it tells of unhealthy devices only
// how many there are, and of the healthy ones in another call than of their number. The
// fields are the same in every release.
func resourcesOf(m *devicemanager.ManagerImpl) (map[string]wire.Resource, error) {
	books := reflect.ValueOf(m).Elem()
	healthy, unhealthy, lock := books.FieldByName("healthyDevices"), books.FieldByName("unhealthyDevices"), books.FieldByName("mutex")
	if healthy.Kind() != reflect.Map || unhealthy.Kind() != reflect.Map || !lock.IsValid() || lock.Type() != reflect.TypeFor[sync.Mutex]() {
		return nil, fmt.Errorf("the device manager of kubelet %s has its devices elsewhere: see resources.go", release())
	}
	mu := (*sync.Mutex)(unsafe.Pointer(lock.UnsafeAddr()))
	mu.Lock()
	defer mu.Unlock()
	all := map[string]wire.Resource{}
	for _, name := range append(healthy.MapKeys(), unhealthy.MapKeys()...) {
		all[name.String()] = wire.Resource{Healthy: idsIn(healthy.MapIndex(name)), Unhealthy: idsIn(unhealthy.MapIndex(name))}
	}
	return all, nil
}

// idsIn are the elements of a set, sorted; none without a set.
func idsIn(set reflect.Value) []string {
	ids := []string{}
	if set.IsValid() {
		for _, id := range set.MapKeys() {
			ids = append(ids, id.String())
		}
	}
	slices.Sort(ids)
	return ids
}
