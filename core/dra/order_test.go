package dra

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/health"
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
	first := o.sort("a", devices)
	devices[0].Verdict = health.Verdict{}
	again := o.sort("a", devices)
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
