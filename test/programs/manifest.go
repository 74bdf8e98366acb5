package programs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Manifest writes the manifest of a program, a path. The fields are YAML, such as "abilities: [prepare]"; those that they do
// not have are:
//
//	name: the file name, without accelmux-backend-
//	vendor: Test
//	version: 1.0.0
//	protocols: [1]
//	classes: [gpu]
//	inUse: core
//
// A manifest that is there already is replaced as a package manager would do it: by another file.
func Manifest(tb testing.TB, program, fields string) {
	tb.Helper()
	all := map[string]any{
		"apiVersion": "backend.accelmux.io/v1", "kind": "Backend", "name": strings.TrimPrefix(filepath.Base(program), "accelmux-backend-"),
		"vendor": "Test", "version": "1.0.0", "protocols": []int{1}, "classes": []string{"gpu"}, "inUse": "core",
	}
	if err := yaml.Unmarshal([]byte(fields), &all); err != nil {
		tb.Fatalf("fields of a manifest: %v", err)
	}
	text, err := yaml.Marshal(all)
	if err != nil {
		tb.Fatal(err)
	}
	path := program + ".yaml"
	if err := os.WriteFile(path+"~", text, 0o644); err != nil { //nolint:gosec // backends have users of their own
		tb.Fatal(err)
	}
	if err := errors.Join(os.Chmod(path+"~", 0o644), os.Rename(path+"~", path)); err != nil {
		tb.Fatal(err)
	}
}

// CopyManifest puts the manifest that is beside one program, with the files that belong to it, beside another: a copy of the
// program, or a link to it. It does nothing if there is none.
func CopyManifest(tb testing.TB, from, to string) {
	tb.Helper()
	files, err := filepath.Glob(from + ".*")
	if err != nil {
		tb.Fatal(err)
	}
	for _, file := range files {
		if err := copyTree(file, to+strings.TrimPrefix(file, from)); err != nil {
			tb.Fatal(err)
		}
	}
}

// copyTree copies a file, or a directory of files, which only this user may write.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := to + strings.TrimPrefix(path, from)
		if entry.IsDir() {
			return errors.Join(os.MkdirAll(target, 0o755), os.Chmod(target, 0o755)) //nolint:gosec // backends have users of their own
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return errors.Join(os.WriteFile(target, text, 0o644), os.Chmod(target, 0o644)) //nolint:gosec // as above
	})
}

// InstallManifest puts the manifest of a directory of this repository, with its schemas and presets, beside a program, as
// the packages have them.
func InstallManifest(tb testing.TB, source, program string) {
	tb.Helper()
	ctx := tb.Context()
	main, err := run(ctx, []string{"env", "GOMOD"})
	if err == nil {
		err = install(ctx, filepath.Join(filepath.Dir(strings.TrimSpace(string(main))), "backends/manifests.sh"), source, program)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

func install(ctx context.Context, script, source, program string) error {
	if out, err := exec.CommandContext(ctx, script, source, program).CombinedOutput(); err != nil {
		return fmt.Errorf("install the manifest of %s: %w\n%s", program, err, out)
	}
	return nil
}
