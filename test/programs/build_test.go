package programs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// module is one with a program, and with a test that runs it.
var module = map[string]string{
	"go.mod":        "module example.com/m\n\ngo 1.26\n",
	"said/said.go":  "package said\n\nimport _ \"embed\"\n\n//go:embed said.txt\nvar Text string\n",
	"said/said.txt": "sound",
	"says/main.go":  "package main\n\nimport \"example.com/m/said\"\n\nfunc main() { print(said.Text) }\n",
	"user/user_test.go": `package user

import (
	"os"
	"os/exec"
	"testing"

	"example.com/m/programs"
)

var built = programs.Shared{Args: []string{"../says"}}

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
`,
}

// write writes a file into a directory.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// Verifies that Go keeps the result of a test only for as long as nothing has changed that its
// programs are made of.
func TestResults(t *testing.T) {
	t.Setenv(BinEnv, "")
	dir := t.TempDir()
	for name, text := range module {
		write(t, dir, name, text)
	}
	for _, name := range []string{"build.go", "shared.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, "programs/"+name, string(text))
	}
	want := func(what, want string) {
		t.Helper()
		command := exec.Command("go", "test", "./user")
		command.Dir, command.Env = dir, append(os.Environ(), "PWD="+dir, "GOWORK=off", "GOFLAGS=")
		out, err := command.CombinedOutput()
		if text := string(out); !strings.Contains(text, want) || (err != nil) != (want == "FAIL") || strings.Contains(text, "(cached)") != (want == "(cached)") {
			t.Errorf("%s: want %s: %v\n%s", what, want, err, text)
		}
	}
	want("first", "ok")
	want("again", "(cached)")
	for name, text := range map[string]string{
		"says/main.go":  "package main\n\nfunc main() { print(\"else\") }\n",
		"said/new.go":   "package said\n\nfunc init() { Text = \"new\" }\n",
		"said/said.txt": "broken",
	} {
		write(t, dir, name, text)
		want(name+" is changed", "FAIL")
		if write(t, dir, name, module[name]); module[name] == "" {
			write(t, dir, name, "package said\n")
		}
	}
}
