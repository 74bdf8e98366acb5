package plug

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/accelmux/accelmux/test/host"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// plant makes a directory of the mode with a script in it that prints a word.
func plant(t *testing.T, dir string, mode os.FileMode, word string) (script []byte) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	script = fmt.Appendf(nil, "#!/bin/sh\necho %s from ${0##*/}\n", word)
	must(t, os.WriteFile(filepath.Join(dir, "backend"), script, 0o755))
	must(t, os.Chmod(dir, mode))
	return script
}

// Verifies that an unusable program is refused before it runs, with what to do.
func TestCheckProgram(t *testing.T) {
	const name = "candidate"
	script := func(dir string, mode os.FileMode) error {
		path := filepath.Join(dir, name)
		return errors.Join(os.WriteFile(path, []byte("#!/bin/sh\n"), 0o600), os.Chmod(path, mode))
	}
	for title, test := range map[string]struct {
		make func(dir string) error
		want string
		root bool
	}{
		"a directory":      {make: func(dir string) error { return os.Mkdir(filepath.Join(dir, name), 0o755) }, want: "is a directory, not a program"},
		"a pipe":           {make: func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, name), 0o755) }, want: "is not a regular file"},
		"not executable":   {make: func(dir string) error { return script(dir, 0o644) }, want: "(mode 0644): run chmod a+x"},
		"group can write":  {make: func(dir string) error { return script(dir, 0o775) }, want: "may be written by its group or others (mode 0775): run chmod go-w"},
		"others can write": {make: func(dir string) error { return script(dir, 0o757) }, want: "may be written by its group or others (mode 0757)"},
		"directory that all can write": {
			make: func(dir string) error { return errors.Join(script(dir, 0o755), os.Chmod(dir, 0o777)) },
			want: "(mode 0777), who could exchange the programs in it: run chmod go-w",
		},
		"another user's": {
			make: func(dir string) error {
				return errors.Join(script(dir, 0o755), os.Chown(filepath.Join(dir, name), 12345, -1))
			},
			want: "belongs to user 12345", root: true,
		},
	} {
		t.Run(title, func(t *testing.T) {
			if test.root && os.Geteuid() != 0 {
				host.Lacks(t, "only root can give files away")
			}
			dir := filepath.Join(t.TempDir(), "backends")
			must(t, errors.Join(os.Mkdir(dir, 0o755), test.make(dir)))
			if _, err := findProgram(dir, name); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
	if _, err := findProgram(t.TempDir(), "../sh"); err == nil || !strings.Contains(err.Error(), `the command "../sh" is not a plain file name`) {
		t.Errorf("of a path: %v", err)
	}
}

// Verifies that a program is refused if another user can replace a directory above it.
func TestDirectoriesAbove(t *testing.T) {
	for name, test := range map[string]struct {
		mode     os.FileMode
		uid, gid int
		want     string
	}{
		"own":             {0o755, 0, 0, ""},
		"another user's":  {0o755, 12345, 0, "belongs to user 12345, who could replace programs that run with the agent's rights"},
		"another group's": {0o775, 0, 12345, "may be written by group 12345 (mode 0775), who could exchange"},
		"own group's":     {0o775, 0, 0, ""},
		"everybody's":     {0o777, 0, 0, "may be written by everybody (mode 0777), who could exchange"},
		"sticky":          {0o777 | os.ModeSticky, 0, 12345, ""},
	} {
		for _, linked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, linked %v", name, linked), func(t *testing.T) {
				if os.Geteuid() != 0 {
					host.Lacks(t, "only root can give directories away")
				}
				above := filepath.Join(t.TempDir(), "above")
				dir := filepath.Join(above, "sub", "backends")
				if linked {
					target := filepath.Join(t.TempDir(), "backends")
					plant(t, target, 0o755, "word")
					must(t, os.MkdirAll(filepath.Dir(dir), 0o755))
					must(t, os.Symlink(target, dir))
				} else {
					plant(t, dir, 0o755, "word")
				}
				must(t, os.Chown(above, test.uid, test.gid))
				must(t, os.Chmod(above, test.mode))
				_, err := findProgram(dir, "backend")
				if (err == nil) != (test.want == "") || err != nil && (!strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), above)) {
					t.Errorf("error %v, want %q", err, test.want)
				}
			})
		}
	}
}
