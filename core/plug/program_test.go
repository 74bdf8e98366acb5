package plug

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/host"
)

const manifestText = `apiVersion: backend.accelmux.io/v1
kind: Backend
name: x
vendor: X
version: 1.0.0
protocols: [1]
classes: [gpu]
inUse: core
`

// install makes a directory with the program "backend" and its manifest, which has a schema of the settings in a file and
// presets in a directory.
func install(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "backends")
	plant(t, dir, 0o755, "word")
	file(t, dir, "backend.yaml", manifestText+"settings: {file: s.json}\npresets: {dir: presets}\n")
	file(t, dir, "backend.s.json", "{}")
	must(t, os.Mkdir(filepath.Join(dir, "backend.presets"), 0o755))
	file(t, dir, "backend.presets/a.yaml", "class: gpu\n")
	return dir
}

func file(t *testing.T, dir, name, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
}

// Verifies that a program is refused whose manifest, or a file that belongs to it, is missing, of another agent, or could be
// exchanged by others, with what to do.
func TestManifest(t *testing.T) {
	for title, test := range map[string]struct {
		change func(dir string) error
		want   string
		root   bool
	}{
		"usable":    {change: func(string) error { return nil }},
		"missing":   {change: func(dir string) error { return os.Remove(filepath.Join(dir, "backend.yaml")) }, want: "backend.yaml of the program does not exist: install it with the program; a backend needs a manifest beside it (docs/manifest.md)"},
		"no schema": {change: func(dir string) error { return os.Remove(filepath.Join(dir, "backend.s.json")) }, want: "backend.s.json: no such file"},
		"a newer field": {
			change: func(dir string) error { return rewrite(dir, "inUse: core", "inUse: core\nlater: 1") }, want: `unknown field "later"`,
		},
		"a newer version": {
			change: func(dir string) error { return rewrite(dir, "backend.accelmux.io/v1", "backend.accelmux.io/v2") }, want: "apiVersion: must be one of backend.accelmux.io/v1",
		},
		"a newer contract": {
			change: func(dir string) error { return rewrite(dir, "[1]", "[2, 3]") }, want: "is for the versions [2 3] of the backend contract, but this core needs version 1",
		},
		"others can write":          {change: chmod("backend.yaml", 0o646), want: "backend.yaml may be written by its group or others (mode 0646), who could give the program other rights"},
		"others can write a schema": {change: chmod("backend.s.json", 0o664), want: "backend.s.json may be written by its group or others"},
		"others can write a preset": {change: chmod("backend.presets/a.yaml", 0o664), want: "a.yaml may be written by its group or others"},
		"others can add presets":    {change: chmod("backend.presets", 0o775), want: "backend.presets may be written by its group or others"},
		"another user's": {
			change: func(dir string) error { return os.Chown(filepath.Join(dir, "backend.yaml"), 12345, -1) }, want: "belongs to user 12345", root: true,
		},
		"a link to where others can write": {
			change: func(dir string) error {
				away := filepath.Join(filepath.Dir(dir), "away")
				return errors.Join(os.Mkdir(away, 0o755), os.Chmod(away, 0o777), os.Rename(filepath.Join(dir, "backend.yaml"), filepath.Join(away, "x.yaml")),
					os.Symlink(filepath.Join(away, "x.yaml"), filepath.Join(dir, "backend.yaml")))
			}, want: "away may be written by its group or others (mode 0777)",
		},
	} {
		t.Run(title, func(t *testing.T) {
			if test.root && os.Geteuid() != 0 {
				host.Lacks(t, "only root can give files away")
			}
			dir := install(t)
			must(t, test.change(dir))
			p, err := Find(dir, "backend", Pins{})
			if test.want == "" {
				must(t, err)
				defer p.Close()
				if p.Manifest.Description.Name != "x" || len(p.Manifest.Presets) != 1 {
					t.Errorf("the manifest is %+v", p.Manifest)
				}
			} else if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func rewrite(dir, from, to string) error {
	path := filepath.Join(dir, "backend.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o600)
}

func chmod(name string, mode os.FileMode) func(string) error {
	return func(dir string) error { return os.Chmod(filepath.Join(dir, name), mode) }
}

// Verifies that each checksum pins its files, also their names, and that the error has the one to write.
func TestPins(t *testing.T) {
	dir := install(t)
	p, err := Find(dir, "backend", Pins{})
	must(t, err)
	script, err := os.ReadFile(filepath.Join(dir, "backend"))
	must(t, err)
	sum := sha256.Sum256(script)
	pins := Pins{Program: "sha256:" + hex.EncodeToString(sum[:]), Manifest: p.Manifest.Sum}
	if got, err := p.Checksum(); err != nil || got != pins.Program {
		t.Errorf("checksum %s, %v", got, err)
	}
	pinned, err := Find(dir, "backend", pins)
	must(t, err)
	pinned.Close()
	if pinned.File == nil {
		t.Error("the pinned program is not open")
	}
	before := MarksOf(dir, "backend")
	if again := MarksOf(dir, "backend"); again != before {
		t.Errorf("marks %s, then %s", before, again)
	}
	must(t, os.Rename(filepath.Join(dir, "backend.presets/a.yaml"), filepath.Join(dir, "backend.presets/b.yaml")))
	if _, err := Find(dir, "backend", pins); err == nil || !strings.Contains(err.Error(), "but the configuration pins "+pins.Manifest) {
		t.Errorf("a preset with another name: %v", err)
	}
	if MarksOf(dir, "backend") == before {
		t.Error("the marks are the same after a preset was renamed")
	}
	if _, err := Find(dir, "backend", Pins{Program: "sha256:" + strings.Repeat("0", 64)}); err == nil || !strings.Contains(err.Error(), "has the checksum "+pins.Program) {
		t.Errorf("another program: %v", err)
	}
}

// Verifies that a running program reports that its program or a file of its manifest was replaced, and whose name and
// version its process must have.
func TestReplaced(t *testing.T) {
	dir := install(t)
	p, err := Find(dir, "backend", Pins{})
	must(t, err)
	if got := p.Replaced(); got != "" {
		t.Error(got)
	}
	if err := p.CheckIdentity("x", "1.0.0"); err != nil {
		t.Error(err)
	}
	if err := p.CheckIdentity("x", "1.0.1"); err == nil || !strings.Contains(err.Error(), "backend is x 1.0.1, but its manifest "+p.Name+".yaml is for x 1.0.0") {
		t.Error(err)
	}
	must(t, os.Remove(filepath.Join(dir, "backend.s.json")))
	if got := p.Replaced(); !strings.Contains(got, "backend.s.json was replaced or removed") {
		t.Error(got)
	}
	must(t, os.Remove(filepath.Join(dir, "backend")))
	if got := p.Replaced(); !strings.Contains(got, "is missing") {
		t.Error(got)
	}
}
