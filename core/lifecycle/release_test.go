package lifecycle

import (
	"testing"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
)

// Verifies that the release of a device that is just being reset with its group is done
// when that has ended, not forgotten.
func TestReleaseWaitsForReset(t *testing.T) {
	r := newRig(t)
	device := &inventory.Device{Key: keyA, Class: "gpu", Edits: inventory.Edits{Env: inventory.Named(map[string]string{"A": "1"})}}
	r.round = roundOf(device)
	r.store.Publish([]*inventory.Device{device}, r.book.Held)
	own := cdi.HolderDefinition{Name: cdi.HolderName(keyA, gpu, []string{"a"}), Device: keyA}
	if err := r.store.Define([]cdi.HolderDefinition{own}, func(string) bool { return true }); err != nil {
		t.Fatal(err)
	}
	end, _ := r.book.BeginReset([]inventory.Key{keyA, keyB})
	r.l.release(t.Context(), []holders.Ended{{Holder: holders.Ref{Kind: holders.KindContainer, ID: "h"}, Device: keyA}})
	if left := r.store.Definitions(); len(left) != 2 {
		t.Errorf("definitions during the reset: %+v", left)
	}
	end()
	r.l.calls.Wait()
	if left := r.store.Definitions(); len(left) != 1 || left[0].Name == own.Name {
		t.Errorf("definitions after the release: %+v, want that of the device alone", left)
	}
}
