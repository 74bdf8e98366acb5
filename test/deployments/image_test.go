package deployments

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestImageFitsTheChart verifies that the Dockerfile puts the programs where the
// chart looks for them, builds with the Go that go.mod asks for, and leaves
// nothing out of its context that the build needs.
func TestImageFitsTheChart(t *testing.T) {
	text := string(read(t, "deployments/docker/Dockerfile"))
	container := agentContainer(t, render(t, mockValues...))
	for _, want := range []string{
		"-o /out" + path.Dir(container.Command[0]) + "/ ./cmd/accelmux ",
		`ENTRYPOINT ["` + container.Command[0] + `"]`,
		"CGO_ENABLED=0",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the Dockerfile has no %q", want)
		}
	}
	for _, arg := range container.Args {
		if dir, ok := strings.CutPrefix(arg, "--backend-dir="); ok && !strings.Contains(text, "-o /out"+dir+"/ ./cmd/accelmux-backend-*") {
			t.Errorf("the backends are not in %s", dir)
		}
	}
	language := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(read(t, "go.mod")))
	if language == nil || !strings.Contains(text, "ARG GO_IMAGE=golang:"+language[1]+"\n") {
		t.Errorf("the Dockerfile does not build with Go %v of go.mod", language)
	}
	ignored := strings.Fields(string(read(t, "deployments/docker/Dockerfile.dockerignore")))
	for _, needed := range []string{"cmd", "core", "backends", "proto", "go.mod"} {
		if slices.Contains(ignored, needed) {
			t.Errorf("the build needs %s, which is ignored", needed)
		}
	}
}
