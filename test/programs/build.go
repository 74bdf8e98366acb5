package programs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// Build builds programs, with arguments of `go build`: flags and packages. They are
// written to the file out, or into the directory out if it ends with a slash. The test
// fails if that cannot be done, and is run again when what they are made of has changed.
func Build(tb testing.TB, out string, args ...string) {
	tb.Helper()
	if err := build(tb, out, args); err != nil {
		tb.Fatal(err)
	}
}

func build(tb testing.TB, out string, args []string) error {
	// The end of one test is no matter to others that share the programs.
	ctx := context.WithoutCancel(tb.Context())
	if err := note(ctx, args); err != nil {
		return err
	}
	_, err := run(ctx, slices.Concat([]string{"build", "-o", out}, args))
	return err
}

// note asks about all that programs are made of, for Go to run the test again when some of
// it has changed.
func note(ctx context.Context, args []string) error {
	files, err := sources(ctx, args)
	if err != nil {
		return err
	}
	// That they are asked for is all.
	for _, name := range []string{"CC", "CGO_CFLAGS", "CGO_ENABLED", "CGO_LDFLAGS", "GOFLAGS"} {
		_ = os.Getenv(name)
	}
	for _, file := range files {
		// A go.mod may be without a go.sum.
		if _, err := os.Stat(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// listed is a package, as `go list` has it.
type listed struct {
	Dir    string
	Module *struct {
		Main  bool
		GoMod string
	}
	GoFiles, CgoFiles, CFiles, CXXFiles, HFiles, SFiles, SysoFiles, EmbedFiles []string
	// What is left out may have been left out by its own text.
	IgnoredGoFiles, IgnoredOtherFiles []string
}

const fields = "Dir,Module,GoFiles,CgoFiles,CFiles,CXXFiles,HFiles,SFiles,SysoFiles,EmbedFiles,IgnoredGoFiles,IgnoredOtherFiles"

// sources are the files of this module that programs are made of, and their directories:
// these change when a file comes or goes.
func sources(ctx context.Context, args []string) ([]string, error) {
	text, err := run(ctx, slices.Concat([]string{"list", "-deps", "-json=" + fields}, args))
	if err != nil {
		return nil, err
	}
	var all []string
	for packages := json.NewDecoder(bytes.NewReader(text)); ; {
		var p listed
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("what go list says: %w", err)
		}
		if p.Module == nil || !p.Module.Main {
			continue
		}
		all = append(all, p.Dir, p.Module.GoMod, filepath.Join(filepath.Dir(p.Module.GoMod), "go.sum"))
		for _, file := range slices.Concat(p.GoFiles, p.CgoFiles, p.CFiles, p.CXXFiles, p.HFiles, p.SFiles, p.SysoFiles, p.EmbedFiles,
			p.IgnoredGoFiles, p.IgnoredOtherFiles) {
			file = filepath.Join(p.Dir, file)
			all = append(all, file, filepath.Dir(file))
		}
	}
	if all == nil {
		return nil, fmt.Errorf("go list %q: nothing of this module", args)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// run runs the command go, and returns what it prints.
func run(ctx context.Context, args []string) ([]byte, error) {
	command := exec.CommandContext(ctx, "go", args...)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("go %q: %w\n%s", args, err, &errs)
	}
	return out.Bytes(), nil
}
