package deployments

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
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

// TestNoProfiles verifies that no program has what shows its insides over the network: profiles, traces
// and gRPC's channels. Prometheus's client imports expvar, whose handler nothing serves.
func TestNoProfiles(t *testing.T) {
	banned := regexp.MustCompile(`(?m)^(net/http/pprof|.*/pprof/http|google.golang.org/grpc/(channelz/service|admin)|k8s.io/.*/routes)$`)
	for _, dir := range []string{".", "cmd/kubectl-accelmux"} {
		packages := must(t, "go", "-C", filepath.Join(root, dir), "list", "-deps", "./...")
		if found := banned.FindAllString(packages, -1); len(found) > 0 || !strings.Contains(packages, "net/http\n") {
			t.Errorf("%s: the programs have %q", dir, found)
		}
	}
}
