package topology

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func draw(b *strings.Builder, g Group, indent string) {
	fmt.Fprintf(b, "%s%s: %s\n", indent, strings.Join(g.Names, ", "), strings.Join(g.Units, " "))
	for _, child := range g.Groups {
		draw(b, child, indent+"  ")
	}
}

// TestGroups draws the hierarchies of machines.
func TestGroups(t *testing.T) {
	for name, tc := range map[string]struct {
		units []Unit
		want  string
	}{
		"PCIe": {pcieOnly(8), `
all, links of 10: 
  links of 30, NUMA 0: 
    links of 50: gpu00 gpu01
    links of 50: gpu02 gpu03
  links of 30, NUMA 1: 
    links of 50: gpu04 gpu05
    links of 50: gpu06 gpu07
`},
		"partitions": {split(switched(2, 1), 2), `
all, links of 100: 
  links of 10000, NUMA 0, device gpu00: gpu00-p0 gpu00-p1
  links of 10000, NUMA 1, device gpu01: gpu01-p0 gpu01-p1
`},
		"replicas": {replicas(switched(2, 1), 2), `
all, links of 100: 
  NUMA 0, device gpu00: gpu00::0 gpu00::1
  NUMA 1, device gpu01: gpu01::0 gpu01::1
`},
	} {
		t.Run(name, func(t *testing.T) {
			all, ok := Prepare(tc.units, Options{}).Groups()
			var b strings.Builder
			draw(&b, all, "")
			if diff := cmp.Diff(strings.TrimPrefix(tc.want, "\n"), b.String()); !ok || diff != "" {
				t.Errorf("ok: %v, groups (-want +got):\n%s", ok, diff)
			}
		})
	}
	if _, ok := Prepare(dgx1(), Options{}).Groups(); ok {
		t.Error("a mesh is a hierarchy")
	}
	mesh := Prepare(dgx1(), Options{})
	if w := mesh.Weight(0, 3); w != 200 || mesh.Weight(3, 3) != 0 || mesh.Weight(0, 8) != 0 || len(mesh.Devices()) != 8 {
		t.Errorf("the weight of two lanes is %d", w)
	}
}
