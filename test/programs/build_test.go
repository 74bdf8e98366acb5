package programs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// module is one with two programs, with tests that share one of them, and with a test
// that needs none.
var module = map[string]string{
	"go.mod":             "module example.com/m\n\ngo 1.26\n",
	"said/said.go":       "package said\n\nimport _ \"embed\"\n\n//go:embed more/said.txt\nvar Text string\n",
	"said/more.go":       "//go:build more\n\npackage said\n\nfunc init() { Text = \"more\" }\n",
	"said/said_test.go":  "package said\n",
	"said/more/said.txt": "sound",
	"says/main.go":       "package main\n\nimport \"example.com/m/said\"\n\nfunc main() { print(said.Text) }\n",
	"other/main.go":      "package main\n\nfunc main() {}\n",
	"user/user_test.go": `package user

import (
	"os"
	"os/exec"
	"testing"

	"example.com/m/programs"
)

var built = programs.Shared{Args: []string{"../says"}, Env: "SAYS"}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := built.Remove(); err != nil {
		panic(err)
	}
	os.Exit(code)
}

func TestSays(t *testing.T) {
	out, err := exec.Command(built.Dir(t) + "/says").CombinedOutput()
	if err != nil || string(out) != "sound" {
		t.Fatalf("%q, %v", out, err)
	}
}

func TestOther(t *testing.T) {
	programs.Build(t, t.TempDir()+"/other", "../other")
}
`,
}

// write writes files into a directory.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// user is that module, with this package in it.
func user(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, module)
	for _, name := range []string{"build.go", "shared.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, map[string]string{"programs/" + name: string(text)})
	}
	return dir
}

// goTest runs the tests of that module: "ok", "cached", or "FAIL" and what is said.
func goTest(t *testing.T, dir string, args ...string) string {
	t.Helper()
	command := exec.Command("go", append([]string{"test"}, args...)...)
	command.Dir = dir
	command.Env = append(os.Environ(), "PWD="+dir, "GOWORK=off", "GOFLAGS=")
	out, err := command.CombinedOutput()
	switch text := string(out); {
	case err == nil && strings.Contains(text, "(cached)"):
		return "cached"
	case err == nil:
		return "ok"
	default:
		return "FAIL\n" + text
	}
}

// Verifies that a result is kept for as long as all is there that the programs are made
// of, and not any longer, whatever of it changes; and that what is nothing to a test
// leaves its result alone.
func TestResults(t *testing.T) {
	dir := user(t)
	want := func(what, want string, args ...string) {
		t.Helper()
		if got := goTest(t, dir, args...); !strings.HasPrefix(got, want) {
			t.Errorf("%s: want %s: %s", what, want, got)
		}
	}
	all, other := []string{"./user"}, []string{"./user", "-run", "TestOther"}
	for _, args := range [][]string{all, other} {
		want("first", "ok", args...)
		want("again", "cached", args...)
	}
	for name, text := range map[string]string{
		"says/main.go":       "package main\n\nfunc main() { print(\"else\") }\n",
		"said/said.go":       "package said\n\nvar Text = \"else\"\n",
		"said/more.go":       strings.TrimPrefix(module["said/more.go"], "//go:build more\n"),
		"said/new.go":        "package said\n\nfunc init() { Text = \"new\" }\n",
		"said/more/said.txt": "broken",
	} {
		was := times(t, dir, name)
		write(t, dir, map[string]string{name: text})
		want(name+" is changed", "FAIL", all...)
		want(name+" is changed", "cached", other...)
		was()
		want(name+" is as it was", "cached", all...)
	}
	// Nobody knows what else would be downloaded.
	write(t, dir, map[string]string{"go.sum": ""})
	want("go.sum is new", "ok", all...)
	want("go.sum is there", "cached", all...)
	write(t, dir, map[string]string{"said/said_test.go": "package said // changed\n"})
	want("a test is changed", "cached", all...)
}

// times notes a file and its directory. What it returns makes them what they were.
func times(t *testing.T, dir, name string) (back func()) {
	t.Helper()
	path := filepath.Join(dir, name)
	modified := map[string]time.Time{}
	for _, p := range []string{path, filepath.Dir(path)} {
		if info, err := os.Stat(p); err == nil {
			modified[p] = info.ModTime()
		}
	}
	return func() {
		t.Helper()
		if text, known := module[name]; known {
			write(t, dir, map[string]string{name: text})
		} else if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		for p, at := range modified {
			if err := os.Chtimes(p, time.Time{}, at); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Verifies that a process which is told of programs builds none, and leaves them.
func TestSharedByProcesses(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SHARED", dir)
	s := &Shared{Args: []string{"./no-such-package"}, Env: "SHARED"}
	if got := s.Dir(t); got != dir {
		t.Errorf("the directory is %s, want %s", got, dir)
	}
	if _, err := os.Stat(dir); errors.Join(err, s.Remove()) != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}

// Verifies that what cannot be built is told, with what go says of it, and what is no
// program of this module.
func TestMistakes(t *testing.T) {
	for arg, want := range map[string]string{"./no-such-package": "no-such-package", "unicode": "nothing of this module"} {
		if err := build(t, t.TempDir()+"/", []string{arg}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v", arg, err)
		}
	}
	s := &Shared{Args: []string{"./no-such-package"}}
	failed := make(chan bool)
	go func() {
		f := &fatal{TB: t}
		defer func() { failed <- f.said }()
		s.Dir(f)
	}()
	if !<-failed {
		t.Error("a test goes on without its programs")
	}
	if err := s.Remove(); err != nil {
		t.Error(err)
	}
}

// fatal is a test that notes its end.
type fatal struct {
	testing.TB
	said bool
}

func (f *fatal) Helper() {}

func (f *fatal) Fatal(...any) {
	f.said = true
	runtime.Goexit()
}
