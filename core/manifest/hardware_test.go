package manifest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/pcibus"
)

// Verifies that the hardware of all programs in a directory is known by their manifests, and that of a wrong manifest or of
// one without a program is not.
func TestHardwareOf(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"b": "", "b.yaml": plain + "hardware: [{vendor: '10de', class: '03', name: GPU}, {vendor: '1d0f', device: 'ec20', name: NIC}]\n",
		"a": "", "a.yaml": "wrong",
		"gone.yaml": plain + "hardware: [{vendor: '1002', name: GPU}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := pcibus.Table{{Backend: "x", Vendor: "10de", Class: "03"}, {Backend: "x", Vendor: "1d0f", Device: "ec20"}}
	if diff := cmp.Diff(want, HardwareOf(dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := HardwareOf(filepath.Join(dir, "none")); got != nil {
		t.Errorf("of no directory: %v", got)
	}
}
