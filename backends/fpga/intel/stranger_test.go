package intel

import (
	"testing"

	"github.com/accelmux/accelmux/test/fpgatree"
)

// A card on PCI whose region is another driver's is no card of this package.
func TestStranger(t *testing.T) {
	tree := write(t, fpgatree.NewPlainMixed())
	want := len(find(t, write(t, fpgatree.NewMixed())).Cards)
	if got := find(t, tree); len(got.Cards) != want || len(got.Problems) > 0 {
		t.Errorf("found %q, want %d cards; problems %q", sketches(got), want, told(got.Problems))
	}
}
