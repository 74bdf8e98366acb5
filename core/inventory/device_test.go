package inventory

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies that every ID makes a name that the API server accepts, and that of two devices whose
// IDs make the same name the later one is left out.
func TestName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}`).Draw(t, "id")
		if errs := validation.IsDNS1123Label((&Device{Key: Key{ID: id}}).Name()); len(errs) > 0 {
			t.Fatal(errs)
		}
	})
	store := NewStore(nil)
	store.Describe("mock", testDesc)
	report, err := EncodeReport(&backendv1.Inventory{Generation: 1, Devices: []*backendv1.Device{
		{Id: "GPU-0.1", Class: "gpu"}, {Id: "gpu-0:1", Class: "gpu"}, {Id: "gpu-01", Class: "gpu"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Report("mock", report); err != nil {
		t.Fatal(err)
	}
	b := store.Snapshot().Backends[0]
	if len(b.Devices) != 2 || b.Devices[0].Name() != "gpu-0-1" || b.Devices[1].Name() != "gpu-01" {
		t.Errorf("the devices are %v", b.Devices)
	}
	if len(b.Problems) != 1 || b.Problems[0].Device != "gpu-0:1" || !strings.Contains(b.Problems[0].Message, "GPU-0.1") {
		t.Errorf("the problems are %+v", b.Problems)
	}
}
