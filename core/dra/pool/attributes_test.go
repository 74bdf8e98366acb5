package pool

import (
	"fmt"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// Verifies that selectors of the configuration see the core's attributes of a device as slices have them, and no others:
// all but those that follow from the resource itself.
func TestSelectorsSeeWhatSlicesHave(t *testing.T) {
	names := []string{"resource.kubernetes.io/pciBusID", "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode"}
	for _, fact := range config.Facts() {
		names = append(names, config.FactsDomain+"/"+fact)
	}
	b := *backend
	b.Description.Version = "1.2.3"
	for _, d := range []*inventory.Device{
		{Key: inventory.Key{Backend: "acme", ID: "GPU-0"}, Class: "gpu", PCIBusID: "0000:65:00.0", PCIeRoot: "pci0000:40", NUMANodes: []int{1}},
		{Key: inventory.Key{Backend: "acme", ID: "part"}, Class: "gpu", Parent: "GPU-0", NUMANodes: []int{0, 1}},
		{Key: inventory.Key{Backend: "acme", ID: "own"}, Class: "gpu", PCIBusID: "0000:65:00.0", PCIeRoot: "pci0000:40", Attributes: inventory.ByName[inventory.Attribute]{
			{Name: "resource.kubernetes.io/pcieRoot", Value: inventory.Attribute{Value: "pci0000:41"}},
		}},
		{Key: inventory.Key{Backend: "acme", ID: "twice"}, Class: "gpu", NUMANodes: []int{1, 1}},
	} {
		o := options(Features{}, resource.Device{Device: d})
		o.Devices[0].Verdict.Healthy, o.Backend = true, &b
		published := New(o).Slices[0].Devices[0].Attributes
		for _, name := range names {
			domain, bare, _ := strings.Cut(name, "/")
			attribute, ok := published[resourceapi.QualifiedName(name)]
			selector := fmt.Sprintf("!has(device.attributes[%q].%s)", domain, bare)
			switch {
			case attribute.StringValue != nil:
				selector = fmt.Sprintf("device.attributes[%q].%s == %q", domain, bare, *attribute.StringValue)
			case attribute.IntValue != nil:
				selector = fmt.Sprintf("device.attributes[%q].%s == %d", domain, bare, *attribute.IntValue)
			case attribute.VersionValue != nil:
				selector = fmt.Sprintf("device.attributes[%q].%s.compareTo(semver(%q)) == 0", domain, bare, *attribute.VersionValue)
			}
			mapper, err := resource.Compile(&config.Profile{Resources: []config.Resource{{Name: "example.com/gpu", Selector: selector}}})
			if err != nil {
				t.Fatal(err)
			}
			one := b
			one.Devices = []*inventory.Device{d}
			table := mapper.Map(&inventory.Snapshot{Backends: []*inventory.Backend{&one}}, nil)
			if len(table.Unassigned) > 0 || len(table.Problems) > 0 {
				t.Errorf("the slice has %s of %s: %v; the selector %s does not select it: %v", name, d.ID, ok, selector, table.Problems)
			}
		}
	}
}
