package agent

import (
	"fmt"
	"maps"
	"testing"

	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// Verifies that a view finds each of its devices and units, and no others.
func TestIndex(t *testing.T) {
	v := viewWith(3, 2)
	part := v.snapshot.Backends[0].Devices[1]
	part.Parent = "2"
	v.table.Resources[1].Units = v.table.Resources[1].Units[2:] // device 0 of y is in no resource
	v.indexed()
	for _, b := range v.snapshot.Backends {
		for i, d := range b.Devices {
			want, units := "gpu", []string{d.ID}
			if b.Name == "y" {
				want, units = "shared", []string{d.ID + "::0", d.ID + "::1"}
			}
			if b.Name == "y" && i == 0 {
				want = ""
			}
			if got := v.resourceOf(d.Key); got != want || v.device(d.Key) != d || v.isSelected(d.Key) != (want != "") {
				t.Errorf("%s is found as %v in resource %q, want %q", d.Key, v.device(d.Key), got, want)
			}
			for _, id := range units {
				if u := v.unit(want, id); (u != nil) != (want != "") || u != nil && (u.ID != id || u.Device != d) {
					t.Errorf("unit %s of resource %q is %v", id, want, u)
				}
			}
			if got := v.isParent(d.Key); got != (b.Name == "x" && i == 2) {
				t.Errorf("%s is a parent: %v", d.Key, got)
			}
		}
	}
	if want := (map[inventory.Key]int{{Backend: "y", ID: "1"}: 2, {Backend: "y", ID: "2"}: 2}); !maps.Equal(v.replicas(), want) {
		t.Errorf("replicas are %v, want %v", v.replicas(), want)
	}
	if none := (inventory.Key{Backend: "x", ID: "9"}); v.device(none) != nil || v.unit("gpu", "9") != nil || v.unit("none", "0") != nil || v.isSelected(none) {
		t.Error("something is found that is not there")
	}
}

// viewWith has so many devices of each of two backends, one of them with replicas.
func viewWith(devices, replicas int) *view {
	v := &view{snapshot: &inventory.Snapshot{}, health: &health.View{}, table: &resource.Table{}}
	for i, backend := range []string{"x", "y"} {
		b := &inventory.Backend{Name: backend}
		r := &resource.Resource{Name: "gpu", Replicas: 1}
		if i == 1 {
			r = &resource.Resource{Name: "shared", Replicas: replicas}
		}
		for n := range devices {
			d := &inventory.Device{Key: inventory.Key{Backend: backend, ID: fmt.Sprint(n)}}
			b.Devices = append(b.Devices, d)
			for k := range r.Replicas {
				id := d.ID
				if r.Replicas > 1 {
					id = fmt.Sprintf("%s::%d", d.ID, k)
				}
				r.Units = append(r.Units, resource.Unit{ID: id, Device: d, Verdict: health.Verdict{Healthy: true}})
			}
		}
		v.snapshot.Backends, v.table.Resources = append(v.snapshot.Backends, b), append(v.table.Resources, r)
	}
	return v
}
