package dra

import (
	"log/slog"
	"testing"

	"github.com/accelmux/accelmux/core/dra/pool"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// Verifies that the pool is made again only when something that it depends on has changed.
func TestPoolIsMadeWhenItChanges(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Publication, *publisher)
		made   bool
	}{
		"the same devices in another round": {func(p *Publication, _ *publisher) {
			backend := *mock
			p.Backend, p.Devices = &backend, append([]resource.Device{}, p.Devices...)
		}, false},
		"claims":           {func(p *Publication, _ *publisher) { p.Claimed = p.Devices }, false},
		"another device":   {func(p *Publication, _ *publisher) { p.Devices = append(p.Devices, device("GPU-2")) }, true},
		"a changed device": {func(p *Publication, _ *publisher) { p.Devices[0] = device("GPU-0") }, true},
		"another order":    {func(p *Publication, _ *publisher) { p.Devices[0], p.Devices[1] = p.Devices[1], p.Devices[0] }, true},
		"a fault":          {func(p *Publication, _ *publisher) { p.Devices[0].Verdict = unhealthy("GPU-0").Verdict }, true},
		"another resource": {func(p *Publication, _ *publisher) { p.Devices[1].Resource = "other" }, true},
		"another backend":  {func(p *Publication, _ *publisher) { p.Backend = &inventory.Backend{} }, true},
		"other links":      {func(p *Publication, _ *publisher) { p.LinkGroups = map[string]pool.LinkGroups{"GPU-1": {"GPU-0"}} }, true},
		"eviction":         {func(p *Publication, _ *publisher) { p.Evict = pool.Eviction{On: true} }, true},
		"another feature":  {func(_ *Publication, p *publisher) { p.features.Taints = true }, true},
	} {
		d := &Driver{opts: Options{Name: driverName, NodeName: node}, log: slog.New(slog.DiscardHandler)}
		p := newPublisher(d)
		publication := Publication{Backend: mock, Devices: []resource.Device{device("GPU-0"), device("GPU-1")}}
		first, same := p.next(publication)
		if same || p.pool != first {
			t.Errorf("%s: the first pool is not published", name)
		}
		publication.Devices = append([]resource.Device{}, publication.Devices...)
		c.change(&publication, p)
		again, same := p.next(publication)
		if made := again != first; made != c.made || p.pool != again {
			t.Errorf("%s: made again: %v, want %v", name, made, c.made)
		}
		if !c.made && !same {
			t.Errorf("%s: it is published again", name)
		}
	}
}
