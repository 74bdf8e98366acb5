package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/round"
)

// Verifies that a field of an opaque kind that is mapped to a parameter which the backend does not have
// is a problem.
func TestKindProblems(t *testing.T) {
	kinds := []config.OpaqueKind{{APIVersion: "gpu.resource.example.com/v1alpha1", Kind: "GpuConfig", Fields: map[string]string{"a": "mode", "sharing.strategy": "mood"}}}
	r := round.New(round.Round{
		Profile:  &config.Profile{Backends: []config.Backend{{Name: "mock", DRA: config.DRA{Kinds: kinds}}, {Name: "silent", DRA: config.DRA{Kinds: kinds}}}},
		Snapshot: &inventory.Snapshot{Backends: []*inventory.Backend{{Name: "mock", Description: inventory.Description{Parameters: []inventory.Parameter{{Name: "mode"}}}}, {Name: "old"}}},
		Table:    &resource.Table{},
	})
	want := []Problem{{Backend: "mock", Message: `dra.kinds, the field sharing.strategy of GpuConfig: the backend does not know the parameter mood; did you mean "mode"?; it has mode: claims with that field are refused`}}
	if diff := cmp.Diff(want, Facts{Round: r}.parameterProblems()); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
