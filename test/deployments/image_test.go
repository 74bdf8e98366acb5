package deployments

import (
	"bytes"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// TestDockerfile verifies that docker's own parser accepts the Dockerfile: every
// instruction with its flags, and the stages that files are copied from.
func TestDockerfile(t *testing.T) {
	parse := func(text []byte) ([]instructions.Stage, error) {
		file, err := parser.Parse(bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		stages, _, err := instructions.Parse(file.AST, linter.New(&linter.Config{}))
		return stages, err
	}
	stages, err := parse(read(t, "deployments/docker/Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for i, stage := range stages {
		for _, command := range stage.Commands {
			if c, ok := command.(*instructions.CopyCommand); ok && c.From != "" {
				if at, ok := instructions.HasStage(stages, c.From); !ok || at >= i {
					t.Errorf("%s: no stage before it is named %s", c, c.From)
				}
			}
		}
	}
	if _, err := parse([]byte("FROM scratch\nCOPY --form=build /a /b\n")); err == nil {
		t.Error("an unknown flag was accepted")
	}
}

// TestImageFitsTheChart verifies that the Dockerfile puts the programs where the
// chart looks for them, builds with the Go that go.mod asks for, and leaves
// nothing out of its context that the build needs.
func TestImageFitsTheChart(t *testing.T) {
	text := string(read(t, "deployments/docker/Dockerfile"))
	container := agentContainer(t, render(t, mockValues...))
	for _, want := range []string{
		"mv /build/accelmux /out" + path.Dir(container.Command[0]) + "/ ",
		`ENTRYPOINT ["` + container.Command[0] + `"]`,
		"make build /build/THIRD_PARTY_NOTICES BIN=/build ",
		"ARG CGO_PROGRAMS=" + cgoPrograms(t) + "\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the Dockerfile has no %q", want)
		}
	}
	for _, arg := range container.Args {
		if dir, ok := strings.CutPrefix(arg, "--backend-dir="); ok && !strings.Contains(text, "mv /build/accelmux-backend-* /build/accelmux-net-hook /out"+dir+"/\n") {
			t.Errorf("the backends are not in %s", dir)
		}
	}
	language := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(read(t, "go.mod")))
	if language == nil || !strings.Contains(text, "ARG GO_IMAGE=golang:"+language[1]+"-") {
		t.Errorf("the Dockerfile does not build with Go %v of go.mod", language)
	}
	ignored := strings.Fields(string(read(t, "deployments/docker/Dockerfile.dockerignore")))
	for _, needed := range []string{"cmd", "core", "backends", "proto", "go.mod", "Makefile", "deployments"} {
		if slices.Contains(ignored, needed) || needed == "deployments" && !slices.Contains(ignored, "!deployments/supply.*") {
			t.Errorf("the build needs %s, which is ignored", needed)
		}
	}
}

// TestImageArchive verifies what the image has that needs no docker: the programs as the chart looks for them, what lies
// beside them, all of it root's and written by nobody else.
func TestImageArchive(t *testing.T) {
	dir, out := standIns(t), t.TempDir()
	must(t, "bash", "-c", "umask 000; exec deployments/docker/archive.sh \"$@\"", "bash", dir, filepath.Join(out, "image.tar"))
	must(t, "tar", "-xf", filepath.Join(out, "image.tar"), "-C", out, "layer.tar")
	got := map[string]string{}
	for line := range strings.Lines(must(t, "tar", "--numeric-owner", "-tvf", filepath.Join(out, "layer.tar"))) {
		fields := strings.Fields(line) // mode, owner, size, date, time, name
		if got[strings.Trim(fields[5], "./")] = fields[0]; fields[1] != "0/0" || strings.Contains(fields[0][5:], "w") {
			t.Errorf("not root's alone: %s", line)
		}
	}
	container := agentContainer(t, render(t, mockValues...))
	want := map[string]string{container.Command[0]: "-rwxr-xr-x"}
	for _, arg := range container.Args {
		if backends, ok := strings.CutPrefix(arg, "--backend-dir="); ok {
			want[backends+"/accelmux-backend-mock"], want[backends+"/accelmux-net-hook"] = "-rwxr-xr-x", "-rwxr-xr-x"
			for _, file := range beside(t, dir) {
				want[backends+"/"+file] = "-rw-r--r--"
			}
		}
	}
	for file, mode := range want {
		if got[strings.TrimPrefix(file, "/")] != mode {
			t.Errorf("%s has the mode %q, want %s", file, got[strings.TrimPrefix(file, "/")], mode)
		}
	}
}

// cgoPrograms are the packages that the Makefile builds with cgo.
func cgoPrograms(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^CGO_PROGRAMS \?= (.+)$`).FindSubmatch(read(t, "Makefile"))
	if found == nil {
		t.Fatal("the Makefile has no CGO_PROGRAMS")
	}
	return string(found[1])
}
