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
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Build builds programs, with arguments of `go build`: flags and packages. They are
// written to the file out, or into the directory out if it ends with a slash, each with its
// manifest beside it if its package, or the directory of its backend, has one. The test
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
	mains, err := note(ctx, args)
	if err != nil {
		return err
	}
	if _, err := run(ctx, slices.Concat([]string{"build", "-o", out}, args)); err != nil {
		return err
	}
	for _, main := range mains {
		program := out
		if strings.HasSuffix(out, "/") {
			program += path.Base(main.ImportPath)
		}
		if source := main.manifests(); source != "" {
			if err := install(ctx, main.script(), source, program); err != nil {
				return err
			}
		}
	}
	return nil
}

// note asks about all that programs are made of, for Go to run the test again when some of
// it has changed, and returns the programs' packages.
func note(ctx context.Context, args []string) ([]listed, error) {
	files, mains, err := sources(ctx, args)
	if err != nil {
		return nil, err
	}
	// That they are asked for is all.
	for _, name := range []string{"CC", "CGO_CFLAGS", "CGO_ENABLED", "CGO_LDFLAGS", "GOFLAGS"} {
		_ = os.Getenv(name)
	}
	for _, file := range files {
		// A go.mod may be without a go.sum.
		if _, err := os.Stat(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	return mains, nil
}

// listed is a package, as `go list` has it.
type listed struct {
	Dir, ImportPath, Name string
	DepOnly               bool
	Module                *struct {
		Main  bool
		GoMod string
	}
	GoFiles, CgoFiles, CFiles, CXXFiles, HFiles, SFiles, SysoFiles, EmbedFiles []string
	// What is left out may have been left out by its own text.
	IgnoredGoFiles, IgnoredOtherFiles []string
}

const fields = "Dir,ImportPath,Name,DepOnly,Module,GoFiles,CgoFiles,CFiles,CXXFiles,HFiles,SFiles,SysoFiles,EmbedFiles,IgnoredGoFiles,IgnoredOtherFiles"

// manifests is the directory of the manifest that belongs to a program; "" if there is none.
func (l *listed) manifests() string {
	dirs := []string{l.Dir}
	if name, ok := strings.CutPrefix(path.Base(l.ImportPath), "accelmux-backend-"); ok {
		dirs = append(dirs, filepath.Join(filepath.Dir(l.Module.GoMod), "backends", name))
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "manifest.yaml")); err == nil {
			return dir
		}
	}
	return ""
}

// script is what installs manifests.
func (l *listed) script() string {
	return filepath.Join(filepath.Dir(l.Module.GoMod), "backends/manifests.sh")
}

// sources are the files of this module that programs are made of, and their directories:
// these change when a file comes or goes. mains are the programs' packages.
func sources(ctx context.Context, args []string) (all []string, mains []listed, err error) {
	text, err := run(ctx, slices.Concat([]string{"list", "-deps", "-json=" + fields}, args))
	if err != nil {
		return nil, nil, err
	}
	for packages := json.NewDecoder(bytes.NewReader(text)); ; {
		var p listed
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, nil, fmt.Errorf("what go list says: %w", err)
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
		if p.Name != "main" || p.DepOnly {
			continue
		}
		mains = append(mains, p)
		if source := p.manifests(); source != "" {
			for _, pattern := range []string{"manifest.yaml", "*.schema.json", "presets/*.yaml"} {
				files, err := filepath.Glob(filepath.Join(source, pattern))
				if err != nil {
					return nil, nil, err
				}
				all = append(all, files...)
			}
			all = append(all, p.script(), filepath.Join(source, "presets"))
		}
	}
	if all == nil {
		return nil, nil, fmt.Errorf("go list %q: nothing of this module", args)
	}
	slices.Sort(all)
	return slices.Compact(all), mains, nil
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
