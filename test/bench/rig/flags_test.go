package rig

import (
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/programs"
)

// Verifies that no benchmark, and not the comparison with a real GPU either, takes a flag
// without its dash for nothing.
func TestFlagsOnly(t *testing.T) {
	t.Parallel()
	const tests = "github.com/accelmux/accelmux/test/"
	packages := []string{tests + "bench", tests + "bench/amd", tests + "bench/fleet", tests + "bench/fpga", tests + "bench/nvidia", tests + "gpu"}
	dir := t.TempDir()
	programs.Build(t, dir+"/", append([]string{"-ldflags=-extldflags=-Wl,-z,lazy"}, packages...)...)
	for _, program := range packages {
		command := exec.CommandContext(t.Context(), filepath.Join(dir, path.Base(program)), "quick")
		output, err := command.CombinedOutput()
		if err == nil || !strings.Contains(string(output), `give flags only, not ["quick"]; -help says`) {
			t.Errorf("%s: %v\n%s", program, err, output)
		}
	}
}
