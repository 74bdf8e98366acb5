package rig

import (
	"os/exec"
	"strings"
	"testing"
)

// Verifies that no benchmark, and not the comparison with a real GPU either, takes a flag
// without its dash for nothing.
func TestFlagsOnly(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"test/bench", "test/bench/amd", "test/bench/fleet", "test/bench/fpga", "test/bench/nvidia", "test/gpu"} {
		command := exec.CommandContext(t.Context(), "go", "run", "-ldflags=-extldflags=-Wl,-z,lazy", "./"+program, "quick")
		command.Dir = "../../.."
		output, err := command.CombinedOutput()
		if err == nil || !strings.Contains(string(output), `give flags only, not ["quick"]; -help says`) {
			t.Errorf("%s: %v\n%s", program, err, output)
		}
	}
}
