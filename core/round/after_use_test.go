package round

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// Verifies which devices are reset after use, and that those which cannot be reset have a fault.
func TestResetsAfterUse(t *testing.T) {
	never, afterUse := config.ResetDevicesNever, config.ResetDevicesAfterUse
	for name, c := range map[string]struct {
		reset  config.ResourceReset
		change func(*config.Backend, *inventory.Backend)
		resets bool
		fault  string
	}{
		"never":                {never, func(*config.Backend, *inventory.Backend) {}, false, ""},
		"after use":            {afterUse, func(*config.Backend, *inventory.Backend) {}, true, ""},
		"the backend cannot":   {afterUse, func(_ *config.Backend, b *inventory.Backend) { b.Description.Reset = false }, true, "backend x cannot reset devices"},
		"the backend must not": {afterUse, func(p *config.Backend, _ *inventory.Backend) { p.Recovery.Reset = config.ResetNever }, true, "recovery.reset: never"},
		"it shares counters with those that are made for claims": {afterUse, func(_ *config.Backend, b *inventory.Backend) {
			b.Devices[0].Consumes = []inventory.Consumption{{Set: "card"}}
		}, true, "shares a card"},
	} {
		d := deviceWith("a")
		d.Backend = "x"
		backend := &inventory.Backend{Name: "x", Description: inventory.Description{Reset: true}, Devices: []*inventory.Device{d}}
		r := &resource.Resource{Resource: config.Resource{Name: "gpu", Reset: c.reset}, Devices: []resource.Device{{Device: d}}}
		p := &config.Profile{Backends: []config.Backend{{Name: "x"}}, Resources: []config.Resource{r.Resource}}
		c.change(&p.Backends[0], backend)
		stages := Round{Profile: p, Snapshot: &inventory.Snapshot{Backends: []*inventory.Backend{backend}}, Table: &resource.Table{Resources: []*resource.Resource{r}}}
		now := New(stages)
		unknown := inventory.Key{Backend: "x", ID: "unknown"}
		if now.ResetsAfterUse(d.Key) != c.resets || now.ResetsAfterUse(unknown) != c.resets || now.ResetsAfterUse(inventory.Key{Backend: "other", ID: "a"}) {
			t.Errorf("%s: a device of the resource is reset after use: %v, one that is not listed: %v, of another backend: %v; want %v and never the last",
				name, now.ResetsAfterUse(d.Key), now.ResetsAfterUse(unknown), now.ResetsAfterUse(inventory.Key{Backend: "other", ID: "a"}), c.resets)
		}
		faults := Unusable(nil, &cdi.Names{}, nil, Unresettable(p, stages.Snapshot, stages.Table), nil, time.Now())
		if f := faults[d.Key]; (f.Code == codeNoReset) != (c.fault != "") || !strings.Contains(f.Message, c.fault) {
			t.Errorf("%s: the faults are %v, want %q", name, maps.Collect(maps.All(faults)), c.fault)
		}
	}
	if !(*Round)(nil).ResetsAfterUse(inventory.Key{}) {
		t.Error("before the first round it is known that a device is not reset after use")
	}
}
