package deployments

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestBuildIsReproducible verifies that `make build` makes the same programs whatever
// the builder's Go environment says. Programs that need cgo are left out: they depend on
// the builder's C compiler.
func TestBuildIsReproducible(t *testing.T) {
	build := func(environment ...string) string {
		out := t.TempDir()
		cmd := exec.CommandContext(t.Context(), "make", "-C", root, "build", "CGO_PROGRAMS=", "VERSION=test", "BIN="+out)
		cmd.Env = append(os.Environ(), environment...)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("make build with %q: %v\n%s", environment, err, text)
		}
		return out
	}
	plain, other := build(), build("GOFLAGS=-buildvcs=true -ldflags=-X=main.x=y", "GOAMD64=v3", "GOARM64=v8.1", "GOEXPERIMENT=nodwarf5")
	programs, err := filepath.Glob(filepath.Join(plain, "*"))
	if err != nil || len(programs) < 2 {
		t.Fatalf("programs %q: %v", programs, err)
	}
	for _, path := range programs {
		one, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		two, err := os.ReadFile(filepath.Join(other, filepath.Base(path)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one, two) {
			t.Errorf("%s differs with the builder's environment", filepath.Base(path))
		}
	}
}
