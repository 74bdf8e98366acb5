package round

import (
	"fmt"
	"maps"
	"testing"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// Verifies that a round finds each of its devices, and no others.
func TestIndex(t *testing.T) {
	stages := roundWith(3, 2)
	part := stages.Snapshot.Backends[0].Devices[1]
	part.Parent = "2"
	stages.Table.Resources[1].Devices = stages.Table.Resources[1].Devices[1:] // device 0 of y is in no resource
	v := New(stages)
	for _, b := range v.Snapshot.Backends {
		for i, d := range b.Devices {
			want := "gpu"
			if b.Name == "y" {
				want = "shared"
			}
			if b.Name == "y" && i == 0 {
				want = ""
			}
			if got := v.ResourceOf(d.Key); got != want || v.Device(d.Key) != d || v.IsSelected(d.Key) != (want != "") {
				t.Errorf("%s is found as %v in resource %q, want %q", d.Key, v.Device(d.Key), got, want)
			}
			if got := v.Assigned(want, d.ID); (got != nil) != (want != "") || got != nil && got.Device != d {
				t.Errorf("device %s of resource %q is %v", d.ID, want, got)
			}
			if got := v.IsParent(d.Key); got != (b.Name == "x" && i == 2) {
				t.Errorf("%s is a parent: %v", d.Key, got)
			}
		}
	}
	if want := (map[inventory.Key]int{{Backend: "y", ID: "1"}: 2, {Backend: "y", ID: "2"}: 2}); !maps.Equal(v.Replicas(), want) {
		t.Errorf("replicas are %v, want %v", v.Replicas(), want)
	}
	if none := (inventory.Key{Backend: "x", ID: "9"}); v.Device(none) != nil || v.Assigned("gpu", "9") != nil || v.Assigned("none", "0") != nil || v.IsSelected(none) {
		t.Error("something is found that is not there")
	}
}

// roundWith has so many devices of each of two backends, one of them with replicas.
func roundWith(devices, replicas int) Round {
	v := Round{Snapshot: &inventory.Snapshot{}, Health: &health.View{}, Table: &resource.Table{}}
	for i, backend := range []string{"x", "y"} {
		b := &inventory.Backend{Name: backend}
		r := &resource.Resource{Resource: config.Resource{Name: "gpu", Replicas: 1}}
		if i == 1 {
			r = &resource.Resource{Resource: config.Resource{Name: "shared", Replicas: replicas}}
		}
		for n := range devices {
			d := &inventory.Device{Key: inventory.Key{Backend: backend, ID: fmt.Sprint(n)}}
			b.Devices = append(b.Devices, d)
			r.Devices = append(r.Devices, resource.Device{Device: d, Verdict: health.Verdict{Healthy: true}})
		}
		v.Snapshot.Backends, v.Table.Resources = append(v.Snapshot.Backends, b), append(v.Table.Resources, r)
	}
	return v
}

// Verifies that what is asked of no round at all finds nothing.
func TestBeforeFirstRound(t *testing.T) {
	var r *Round
	key := inventory.Key{Backend: "x", ID: "0"}
	r.Each(func(d *inventory.Device, _ health.Verdict) { t.Errorf("there is %s", d.Key) })
	if !r.Idle() || r.Device(key) != nil || r.LastSeen(key) != nil || r.Assigned("gpu", "0") != nil || r.Resource("gpu") != nil ||
		r.Backend("x") != nil || r.IsSelected(key) || r.IsParent(key) {
		t.Error("something is found before the first round")
	}
}
