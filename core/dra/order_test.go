package dra

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// Verifies that devices of equal links keep the order of the inventory, and that health does not
// change it.
func TestOrder(t *testing.T) {
	var devices []resource.Device
	for i := range 20 {
		devices = append(devices, device(fmt.Sprintf("GPU-%02d", i)))
	}
	o := orders{}
	first := o.of("a", devices).sort(devices)
	devices[0].Verdict = health.Verdict{}
	again := o.of("a", devices).sort(devices)
	ids := func(all []resource.Device) (ids []string) {
		for _, d := range all {
			ids = append(ids, d.ID)
		}
		return ids
	}
	if diff := cmp.Diff(ids(first), ids(again)); diff != "" || len(o) != 1 {
		t.Errorf("the order changed:\n%s", diff)
	}
}

// Verifies that the scheduler, which tries slices by their names, tries the devices of a pool with
// several slices in our order; that devices of one link group have its name as an attribute, which a
// device keeps when another one of its group is unhealthy or in a container.
func TestLinkedDevicesAreNeighborsInTheSlices(t *testing.T) {
	t.Parallel()
	server := newAPIServer()
	f := frontend(t, server, t.TempDir())
	const pairs = 40
	id := func(i int) string { return fmt.Sprintf("gpu-%02d", i) }
	var devices []resource.Device
	var want []string
	for i := range 2 * pairs {
		d := device(id(i))
		d.Links = []inventory.Link{{Peer: id((i + pairs) % (2 * pairs)), Kind: "nvlink", Count: 4}}
		devices = append(devices, d)
		want = append(want, fmt.Sprintf("%s %s", id(i/2+i%2*pairs), id(i/2)))
	}
	f.Publish(roundOf([]config.API{config.APIDRA}, devices))
	published := func() (all []string) {
		list, err := server.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(list.Items, func(a, b resourceapi.ResourceSlice) int { return strings.Compare(a.Name, b.Name) })
		for _, slice := range list.Items {
			for _, d := range slice.Spec.Devices {
				all = append(all, d.Name+" "+*d.Attributes["accelmux.io/linkGroup2"].StringValue)
			}
		}
		return all
	}
	until(t, func() bool { return slices.Equal(published(), want) }, func() any { return cmp.Diff(want, published()) })
	var shown []string
	for _, slice := range f.Slices() {
		for _, d := range slice.Spec.Devices {
			shown = append(shown, d.Name+" "+*d.Attributes["accelmux.io/linkGroup2"].StringValue)
		}
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("the slices that are shown (-want +got):\n%s", diff)
	}
	devices = slices.Clone(devices)
	devices[7].Verdict = unhealthy("").Verdict
	devices[3+pairs] = held(devices[3+pairs])
	f.Publish(roundOf([]config.API{config.APIDRA}, devices))
	want = slices.DeleteFunc(want, func(s string) bool { return s == id(3+pairs)+" "+id(3) })
	until(t, func() bool { return slices.Equal(published(), want) }, func() any { return cmp.Diff(want, published()) })
}
