package fpga

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// A missing directory of bitstreams is reported before a container asks for a file, until it
// exists, or settings have another one or none.
func TestDirectory(t *testing.T) {
	run(t, `{"bitstreams": "BITSTREAMS/crypto", "health": {"interval": "1s"}}`, func(r *rig, _ *fake) {
		reported := func(inv *backendv1.Inventory) bool {
			return healthy(1)(inv) && len(inv.GetProblems()) == 1 &&
				strings.Contains(inv.GetProblems()[0], "bitstreams/crypto, cannot be opened: no such file or directory: make it on the node")
		}
		over := func(inv *backendv1.Inventory) bool { return healthy(1)(inv) && len(inv.GetProblems()) == 0 }
		r.inventory("the problem", reported)
		r.do(os.Mkdir(filepath.Join(r.root, "bitstreams/crypto"), 0o755))
		r.inventory("the end of it", over)
		r.do(os.Remove(filepath.Join(r.root, "bitstreams/crypto")))
		r.file("", r.root, "bitstreams/crypto")
		r.inventory("no directory", func(inv *backendv1.Inventory) bool {
			return strings.Contains(fmt.Sprint(inv.GetProblems()), "not a directory")
		})
		r.configure(programming)
		r.inventory("another directory", over)
	}, cardOf("a", 1, port("a", 0, functionA)))
}
