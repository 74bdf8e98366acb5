package deployments

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReleaseFiles verifies the files of a release: those that users install, each in SHA256SUMS,
// and a chart that needs no image.repository.
func TestReleaseFiles(t *testing.T) {
	out := t.TempDir()
	for _, args := range [][]string{{"programs", bin, out}, {"chart", "ghcr.io/someone/accelmux", out}, {"sums", out}} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, "deployments/release.sh"), args...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "VERSION=v1.2.3", "HELM="+helm, "NFPM="+nfpm, "ARCH=amd64", "SOURCE_DATE_EPOCH=1700000000")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("release.sh %v: %v\n%s", args, err, text)
		}
	}
	const archive = "accelmux-v1.2.3-linux-amd64"
	files := []string{"accelmux-1.2.3-1.x86_64.rpm", "accelmux-1.2.3.tgz", archive + ".tar.gz", "accelmux_1.2.3-1_amd64.deb"}
	sums, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for line := range strings.Lines(string(sums)) {
		listed = append(listed, strings.Fields(line)[1])
	}
	slices.Sort(listed)
	if !slices.Equal(listed, files) {
		t.Errorf("SHA256SUMS lists %v, want %v", listed, files)
	}
	must(t, "env", "-C", out, "sha256sum", "--check", "--quiet", "SHA256SUMS")

	programs := must(t, "tar", "-tzf", filepath.Join(out, archive+".tar.gz"))
	contents := []string{"bin/accelmux", "libexec/accelmux-backend-mock", "libexec/accelmux-net-hook", "share/nodeconfig.json", "share/backend-manifest.json", "LICENSE", "THIRD_PARTY_NOTICES", "sbom/accelmux.cdx.json"}
	for _, file := range beside(t, bin) {
		contents = append(contents, "libexec/"+file)
	}
	for _, name := range contents {
		if !strings.Contains(programs, archive+"/"+name+"\n") {
			t.Errorf("the archive lacks %s:\n%s", name, programs)
		}
	}

	text := must(t, helm, "template", "accelmux", filepath.Join(out, "accelmux-1.2.3.tgz"), "-f", "deployments/helm/accelmux/examples/mock.yaml")
	images := regexp.MustCompile(`(?m)^ +image: (.*)$`).FindAllStringSubmatch(text, -1)
	if len(images) == 0 {
		t.Fatalf("the chart has no image:\n%s", text)
	}
	for _, image := range images {
		if strings.Trim(image[1], `"`) != "ghcr.io/someone/accelmux:v1.2.3" {
			t.Errorf("the chart's image is %s", image[1])
		}
	}
}

// TestReleaseNotes verifies that a release's notes are its chapter of the changelog, and that no
// release is made without one or of a tag that is no version.
func TestReleaseNotes(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "deployments", "release.sh")
	const changelog = "# Changelog\n\n## Unreleased\n\nnew\n\n## 1.2.3 (2026-12-01)\n\n### Fixed\n\n- this\n\n## 1.2\n\nold\n"
	if err := errors.Join(os.Mkdir(filepath.Dir(script), 0o700), os.Symlink(filepath.Join(root, "deployments/release.sh"), script),
		os.WriteFile(filepath.Join(dir, "CHANGELOG.md"), []byte(changelog), 0o600)); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{
		"v1.2.3": "\n### Fixed\n\n- this\n\n",
		"1.2.3":  "release.sh: 1.2.3 is no version such as v1.2.3\n",
		"v1.2":   "release.sh: v1.2 is no version such as v1.2.3\n",
		"v1.2.4": "release.sh: CHANGELOG.md has no chapter ## 1.2.4\n",
	} {
		cmd := exec.CommandContext(t.Context(), script, "notes")
		cmd.Env = append(os.Environ(), "VERSION="+version)
		out, err := cmd.CombinedOutput()
		if string(out) != want || (err == nil) != (version == "v1.2.3") {
			t.Errorf("%s: %v, %q, want %q", version, err, out, want)
		}
	}
}

// TestWorkflows verifies what GitHub would refuse in the workflows, and that the files of the
// repository that they run exist.
func TestWorkflows(t *testing.T) {
	workflows, err := filepath.Glob(filepath.Join(root, ".github/workflows/*"))
	if err != nil || len(workflows) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	builder := regexp.MustCompile(`ARG GO_IMAGE=(.*)`).FindSubmatch(read(t, "deployments/docker/Dockerfile"))
	if !strings.Contains(string(read(t, ".github/workflows/release.yml")), "container: "+string(builder[1])+"\n") {
		t.Errorf("packages are not built in %s, as the image is", builder[1])
	}
	all := ""
	for _, workflow := range workflows {
		text, err := os.ReadFile(workflow)
		if err != nil {
			t.Fatal(err)
		}
		all += string(text)
		must(t, actionlint, "-no-color", "-shellcheck=", "-pyflakes=", workflow)
		for _, path := range regexp.MustCompile(`[ "](deployments/[\w./-]+|\.ci/run)`).FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(root, path[1])); err != nil {
				t.Error(err)
			}
		}
	}
	for _, used := range regexp.MustCompile(`setup-go@v\d+\n +with: (.*)`).FindAllStringSubmatch(all, -1) {
		if used[1] != "{go-version-file: go.mod}" {
			t.Errorf("a workflow does not use the Go of go.mod, whose toolchain line is the release: %s", used[1])
		}
	}
	wrong := write(t, "wrong.yml", "on: push\njobs: {a: {runs-on: ubuntu-24.04, steps: [{run: 'echo ${{ github.nothing }}'}]}}\n")
	if _, err := command(t.Context(), actionlint, "-no-color", wrong); err == nil {
		t.Error("a wrong expression is accepted")
	}
}
