package deployments

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated files anew")

// What TestMain finds or builds.
var (
	// root is the repository.
	root string
	// bin has the accelmux programs.
	bin string
	// helm, nfpm and actionlint are the pinned tools.
	helm, nfpm, actionlint string
)

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if root, err = filepath.Abs("../.."); err != nil {
		return 0, err
	}
	ctx := context.Background()
	for name, path := range map[string]*string{"helm": &helm, "nfpm": &nfpm, "actionlint": &actionlint} {
		// -n prints where the tool is, after it was built.
		out, err := command(ctx, "go", "tool", "-n", "-modfile=deployments/tools.mod", name)
		if err != nil {
			return 0, err
		}
		*path = strings.TrimSpace(out)
	}
	if bin = os.Getenv("ACCELMUX_BIN"); bin == "" {
		if bin, err = os.MkdirTemp("", "accelmux-bin"); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(bin)) }()
		if _, err := command(ctx, "make", "sbom", "BIN="+bin); err != nil {
			return 0, err
		}
	}
	return m.Run(), nil
}

// command runs a program in the repository and returns what it printed to
// stdout. The error has what it printed to stderr.
func command(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = root
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(name), strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String(), nil
}

// must is command for what has to work.
func must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := command(t.Context(), name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// read returns a file of the repository.
func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// write makes a file in a directory of the test's own and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// lacks ends a test for what the machine lacks: skipped, or failed where nothing may be.
// It is test/host's Lacks, which is in another module.
func lacks(t *testing.T, sentence string) {
	t.Helper()
	if os.Getenv("ACCELMUX_NO_SKIPS") == "1" {
		t.Fatal(sentence)
	}
	t.Skip(sentence) //nolint:forbidigo // this is the place for it
}
