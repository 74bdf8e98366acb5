package agent

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/topology"
	"github.com/accelmux/accelmux/test/patience"
)

// Verifies what there is to choose from: what is healthy and not held as a unit of
// that resource, with the policy of the configuration.
func TestSupplies(t *testing.T) {
	const name = "ex.com/a"
	book, err := holders.Open(holders.Options{
		Path: filepath.Join(t.TempDir(), "usage"), BootID: "boot", Socket: "/nowhere",
		Resolve: func(string, string) (inventory.Key, bool) { return inventory.Key{}, false },
	})
	if err != nil {
		t.Fatal(err)
	}
	plugin, err := deviceplugin.New(deviceplugin.Options{Dir: t.TempDir(), RegistryDir: t.TempDir(), Lifecycle: lifecycle{}})
	if err != nil {
		t.Fatal(err)
	}
	r := &resource.Resource{Name: name, Injection: config.InjectPlain, Registration: config.RegisterSocket, Replicas: 1}
	r.Allocation.Policy = config.AllocateSpread
	for _, id := range []string{"d", "c", "b", "a"} {
		r.Units = append(r.Units, resource.Unit{
			ID: id, Device: &inventory.Device{Key: inventory.Key{Backend: "mock", ID: id}}, Verdict: health.Verdict{Healthy: id != "c"},
		})
	}
	a := &Agent{book: book, plugin: plugin}
	v := &round.Round{Table: &resource.Table{Resources: []*resource.Resource{r, {Name: "ex.com/late"}}}}
	if got := a.supplies(nil); len(got) > 0 {
		t.Errorf("without a view: %+v", got)
	}
	if got := a.supplies(v); len(got) > 0 {
		t.Errorf("before kubelet may be told: %+v", got)
	}

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- plugin.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	plugin.Publish(&resource.Table{Resources: v.Table.Resources[:1]}, nil)
	patience.Until(t, "the plugin knows the topology", func() bool { return plugin.Topology(name) != nil })
	for name, of := range map[string]resource.Unit{name: r.Units[3], "ex.com/other": r.Units[2]} {
		if err := book.Take(ctx, name, []holders.Unit{{ID: of.ID, Device: of.Device.Key}}); err != nil {
			t.Fatal(err)
		}
	}
	got := a.supplies(v)
	if len(got) != 1 || got[0].resource != r || !slices.Equal(got[0].free, []string{"d", "b"}) {
		t.Fatalf("supplies %+v", got)
	}
	choice := got[0].topology.Choose(topology.Request{Available: got[0].free, Size: 2})
	if !slices.Equal(choice.IDs, []string{"b", "d"}) {
		t.Errorf("choice %+v", choice)
	}
}
