package programs

import (
	"os/exec"
	"testing"

	"github.com/accelmux/accelmux/test/host"
)

// Script runs a script of the repository, and fails the test if that fails.
func Script(tb testing.TB, name string, args ...string) {
	tb.Helper()
	if out, err := exec.CommandContext(tb.Context(), name, args...).CombinedOutput(); err != nil {
		tb.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// BuildPython makes the backend in Python the file out, with its manifest beside it. It is for packages of test/.
func BuildPython(tb testing.TB, out string) {
	tb.Helper()
	if err := exec.CommandContext(tb.Context(), "/usr/bin/python3", "-c", "import cryptography, grpc, grpc_tools").Run(); err != nil {
		host.Lacks(tb, "Debian's python3-cryptography, python3-grpcio and python3-grpc-tools are not installed: %v", err)
	}
	Script(tb, "../../backends/examples/python/build.sh", out)
	Script(tb, "../../backends/manifests.sh", "../../backends/examples/python", out)
}
