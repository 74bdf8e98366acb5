package agent

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/status"
)

// Verifies that the release of a device that is just being reset with its group
// is done when that is over, not forgotten.
func TestReleaseWaitsForReset(t *testing.T) {
	book, err := holders.Open(holders.Options{
		Path: filepath.Join(t.TempDir(), "usage"), BootID: "boot", Socket: "/nowhere",
		Resolve: func(string, string) (inventory.Key, bool) { return inventory.Key{}, false },
	})
	if err != nil {
		t.Fatal(err)
	}
	store, err := cdi.Open(cdi.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	device := &inventory.Device{Key: keyA, Class: "gpu", Edits: inventory.Edits{Env: inventory.Named(map[string]string{"A": "1"})}}
	store.Publish([]*inventory.Device{device}, nobody)
	own := cdi.HolderDefinition{Name: cdi.HolderName(keyA.Backend, "r", []string{"a"}), Device: keyA}
	if err := store.Define(own, func(string) bool { return true }); err != nil {
		t.Fatal(err)
	}
	a := &Agent{
		tally: status.NewTally(),
		book:  book, cdi: store, log: slog.New(slog.DiscardHandler), wake: make(chan struct{}, 1),
		opts: Options{}.withDefaults(),
	}
	end, _ := book.BeginReset([]inventory.Key{keyA, keyB})
	a.released(t.Context(), []holders.Ended{{Holder: "h", Key: keyA}})
	end()
	a.onDuty.Wait()
	if left := store.Definitions(); len(left) != 1 || left[0].Name == own.Name {
		t.Errorf("definitions after the release: %+v, want that of the device alone", left)
	}
}
