package deployments

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		"make build BIN=/build ",
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
	for _, needed := range []string{"cmd", "core", "backends", "proto", "go.mod", "Makefile"} {
		if slices.Contains(ignored, needed) {
			t.Errorf("the build needs %s, which is ignored", needed)
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

// TestImageArchiveOnABase verifies that programs that need a C library are in the
// archive if it has a base to stand on, and that the base is the lower layer.
func TestImageArchiveOnABase(t *testing.T) {
	base, out := write(t, "base.tar", "a root file system"), filepath.Join(t.TempDir(), "image.tar")
	must(t, "env", "BASE="+base, filepath.Join(root, "deployments/docker/archive.sh"), bin, out)
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	_, archive := untar(t, data)
	var manifest []struct{ Config, Layers any }
	if err := json.Unmarshal(archive["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{"base.tar", "layer.tar"}, manifest[0].Layers); diff != "" {
		t.Errorf("layers (-want +got):\n%s", diff)
	}
	for _, layer := range []string{"base.tar", "layer.tar"} {
		config, sum := string(archive[manifest[0].Config.(string)]), fmt.Sprintf("sha256:%x", sha256.Sum256(archive[layer]))
		if !strings.Contains(config, sum) {
			t.Errorf("the configuration lacks %s of %s:\n%s", sum, layer, config)
		}
	}
	modes, _ := untar(t, archive["layer.tar"])
	for _, program := range strings.Fields(cgoPrograms(t)) {
		if mode := modes["./usr/libexec/accelmux/"+path.Base(program)]; mode != "0755 0:0" {
			t.Errorf("%s: %q", program, mode)
		}
	}
}

// TestImageArchive verifies that the archive holds what its lists say, with the
// programs where the chart looks for them, writable for root alone; and that it
// is the same each time.
func TestImageArchive(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.tar"), filepath.Join(dir, "two.tar")
	for _, out := range []string{one, two} {
		must(t, "deployments/docker/archive.sh", bin, out)
	}
	data, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(two); err != nil || !bytes.Equal(data, again) {
		t.Errorf("two archives of the same programs differ (%v)", err)
	}
	_, archive := untar(t, data)
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(archive["manifest.json"], &manifest); err != nil || len(manifest) != 1 {
		t.Fatalf("manifest %s: %v", archive["manifest.json"], err)
	}
	if diff := cmp.Diff([]string{"localhost/accelmux:dev"}, manifest[0].RepoTags); diff != "" {
		t.Errorf("name (-want +got):\n%s", diff)
	}
	var config struct {
		Config struct{ Entrypoint []string }
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := json.Unmarshal(archive[manifest[0].Config], &config); err != nil {
		t.Fatalf("config: %v", err)
	}
	container := agentContainer(t, render(t, mockValues...))
	if diff := cmp.Diff(container.Command, config.Config.Entrypoint); diff != "" {
		t.Errorf("entry point (-chart +image):\n%s", diff)
	}
	layer := archive[manifest[0].Layers[0]]
	if want := fmt.Sprintf("sha256:%x", sha256.Sum256(layer)); !slices.Equal(config.RootFS.DiffIDs, []string{want}) {
		t.Errorf("layers %v, want %s", config.RootFS.DiffIDs, want)
	}
	modes, _ := untar(t, layer)
	if diff := cmp.Diff(map[string]string{
		"./":                      "0755 0:0",
		"./etc/":                  "0755 0:0",
		"./etc/accelmux/":         "0755 0:0",
		"./usr/":                  "0755 0:0",
		"./usr/bin/":              "0755 0:0",
		"./usr/bin/accelmux":      "0755 0:0",
		"./usr/libexec/":          "0755 0:0",
		"./usr/libexec/accelmux/": "0755 0:0",
		"./usr/libexec/accelmux/accelmux-backend-amd":    "0755 0:0",
		"./usr/libexec/accelmux/accelmux-backend-device": "0755 0:0",
		"./usr/libexec/accelmux/accelmux-backend-fpga":   "0755 0:0",
		"./usr/libexec/accelmux/accelmux-backend-mock":   "0755 0:0",
		"./usr/libexec/accelmux/accelmux-net-hook":       "0755 0:0",
		"./usr/share/":                                "0755 0:0",
		"./usr/share/doc/":                            "0755 0:0",
		"./usr/share/doc/accelmux/":                   "0755 0:0",
		"./usr/share/doc/accelmux/LICENSE":            "0644 0:0",
		"./usr/share/doc/accelmux/amdgpu.ids.LICENSE": "0644 0:0",
	}, modes); diff != "" {
		t.Errorf("layer (-want +got):\n%s", diff)
	}
}

// untar returns the modes and owners of what is in an archive, and its files.
func untar(t *testing.T, data []byte) (modes map[string]string, files map[string][]byte) {
	t.Helper()
	modes, files = map[string]string{}, map[string][]byte{}
	for reader := tar.NewReader(bytes.NewReader(data)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return modes, files
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[header.Name] = fmt.Sprintf("%04o %d:%d", header.Mode, header.Uid, header.Gid)
		if files[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
}
