package process

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/accelmux/accelmux/backends/sdk"
)

// A start fails for leftovers only where all of them can be seen.
func TestLeftovers(t *testing.T) {
	host := t.TempDir()
	if err := os.MkdirAll(filepath.Join(host, "self/ns"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(initial, filepath.Join(host, "self/ns/pid")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		setting    Leftovers
		procfs     string
		ok, wanted bool
	}{
		{"", host, true, false}, {Ignore, "", true, false}, {Report, "", true, true},
		{Fail, host, true, true}, {Fail, t.TempDir(), false, true}, {"kill", host, false, false},
	} {
		var errs sdk.FieldErrors
		c.setting.Check("prepare.leftovers", c.procfs, &errs)
		if (len(errs) == 0) != c.ok || c.setting.Wanted() != c.wanted {
			t.Errorf("%q: %v, wanted %v", c.setting, errs, c.setting.Wanted())
		}
	}
}
