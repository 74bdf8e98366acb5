package fpga

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// A directory of bitstreams that is not there is told of before a container asks for a
// file, until it is there, or until settings have another one or none.
func TestDirectory(t *testing.T) {
	run(t, `{"bitstreams": "BITSTREAMS/crypto", "health": {"interval": "1s"}}`, func(r *rig, _ *fake) {
		told := func(inv *backendv1.Inventory) bool {
			return healthy(1)(inv) && len(inv.GetProblems()) == 1 &&
				strings.Contains(inv.GetProblems()[0], "bitstreams/crypto, cannot be opened: no such file or directory: make it on the node")
		}
		over := func(inv *backendv1.Inventory) bool { return healthy(1)(inv) && len(inv.GetProblems()) == 0 }
		r.inventory("the problem", told)
		r.do(os.Mkdir(filepath.Join(r.root, "bitstreams/crypto"), 0o755))
		r.inventory("the end of it", over)
		r.do(os.Remove(filepath.Join(r.root, "bitstreams/crypto")))
		r.inventory("the problem again", told)
		if all := r.idle(10 * time.Second); len(all) > 0 {
			t.Errorf("it is told again though nothing changed: %q", all[0].GetProblems())
		}
		r.file("", r.root, "bitstreams/crypto")
		r.inventory("no directory", func(inv *backendv1.Inventory) bool {
			return strings.Contains(fmt.Sprint(inv.GetProblems()), "not a directory")
		})
		r.configure(programming)
		r.inventory("another directory", over)
	}, cardOf("a", 1, port("a", 0, functionA)))
}

// A directory on a file system that hangs is told of, and holds up nothing.
func TestDirectoryHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{t: t, name: "dfl", reading: driver.Reading{Cards: []driver.Card{cardOf("a", 1, port("a", 0, functionA))}}}
		r := newRig(t, f)
		answers := make(chan struct{})
		r.backend.seams.directory = func(string) error { <-answers; return nil }
		r.watch(programming)
		r.inventory("the region", func(inv *backendv1.Inventory) bool { return healthy(1)(inv) && len(inv.GetProblems()) == 0 })
		began := time.Now()
		r.inventory("the problem", func(inv *backendv1.Inventory) bool {
			return healthy(1)(inv) && strings.Contains(fmt.Sprint(inv.GetProblems()), "its file system hangs")
		})
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("that was told after %v", took)
		}
		f.change(func() { *f.region("a", 0) = port("a", 0, functionB) })
		r.inventory("another function", func(inv *backendv1.Inventory) bool { return text(device(inv, "a-port0"), "functionID") == functionB })
		close(answers)
		r.inventory("the end of it", func(inv *backendv1.Inventory) bool { return len(inv.GetProblems()) == 0 })
	})
}
