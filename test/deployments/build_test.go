package deployments

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestBuildIsReproducible verifies that everything that is built and packed is the same, byte by byte,
// in another directory and whatever the builder's environment says. Go's cache knows packages by their
// content, so a second build links them anew and compiles none, unless ACCELMUX_EMPTY_CACHES is set
// (make reproducible): then each build has a cache of its own, builds the kubectl plugin for all platforms,
// collects licences, and packs the whole programs.
func TestBuildIsReproducible(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "a", "place", "elsewhere")
	must(t, "bash", "-c", `umask 077; mkdir -p "$0" && git ls-files -z --cached --others --exclude-standard |
		tar --null --files-from=- -cf - | tar --no-same-permissions -C "$0" -xf -`, elsewhere)
	one := packAll(t, root, "022")
	two := packAll(t, elsewhere, "077", "GOFLAGS=-buildvcs=true -ldflags=-X=main.x=y", "GOAMD64=v3", "GOARM64=v8.1", "GOEXPERIMENT=nodwarf5", "TZ=Asia/Tokyo")
	if len(one) < 20 {
		t.Errorf("only %d files were built", len(one))
	}
	for name, sum := range one {
		if two[name] != sum {
			t.Errorf("%s differs", name)
		}
	}
	if len(two) != len(one) {
		t.Errorf("%d files, and %d", len(one), len(two))
	}
}

// packAll builds and packs everything from the sources in a directory, and returns the files' checksums.
func packAll(t *testing.T, dir, umask string, environment ...string) map[string]string {
	t.Helper()
	out := t.TempDir()
	script := `umask $UMASK; mkdir "$OUT"/{bin,dist}
		if [[ -z ${ACCELMUX_EMPTY_CACHES:-} ]]; then touch "$OUT/bin/THIRD_PARTY_NOTICES"; fi # it takes long
		make sbom BIN="$OUT/bin"
		deployments/docker/archive.sh "$OUT/bin" "$OUT/dist/image.tar"
		deployments/release.sh chart ghcr.io/someone/accelmux "$OUT/dist"
		packed=$OUT/bin
		if [[ -n ${ACCELMUX_EMPTY_CACHES:-} ]]; then
			deployments/release.sh plugin "$OUT/dist"
		else
			# The beginnings of the programs: to compress them takes half a minute.
			packed=$OUT/short
			mkdir "$packed" && cp -r "$OUT"/bin/{sbom,THIRD_PARTY_NOTICES} "$packed/"
			for program in "$OUT"/bin/accelmux*; do
				[[ ${program##*/} == *.* ]] || head -c 4096 "$program" >"$packed/${program##*/}"
			done
			backends/manifests.sh "$packed"
		fi
		deployments/release.sh programs "$packed" "$OUT/dist"`
	if os.Getenv("ACCELMUX_EMPTY_CACHES") != "" {
		cache := filepath.Join(t.TempDir(), "cache")
		environment = append(environment, "GOCACHE="+cache)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euxo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "OUT="+out, "UMASK="+umask, "VERSION=v1.2.3", "HELM="+helm, "NFPM="+nfpm, "SOURCE_DATE_EPOCH=1700000000")
	cmd.Env = append(cmd.Env, environment...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("in %s: %v\n%s", dir, err, text)
	}
	sums := map[string]string{}
	err := fs.WalkDir(os.DirFS(out), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(out, path))
		sums[path] = fmt.Sprintf("%x", sha256.Sum256(content))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

// TestNoProfiles verifies that no program has what shows its insides over the network: profiles, traces
// and gRPC's channels. Prometheus's client imports expvar, whose handler nothing serves.
func TestNoProfiles(t *testing.T) {
	banned := regexp.MustCompile(`(?m)^(net/http/pprof|.*/pprof/http|google.golang.org/grpc/(channelz/service|admin)|k8s.io/.*/routes)$`)
	for _, dir := range []string{".", "cmd/kubectl-accelmux"} {
		packages := must(t, "go", "-C", filepath.Join(root, dir), "list", "-deps", "./...")
		if found := banned.FindAllString(packages, -1); len(found) > 0 || !strings.Contains(packages, "net/http\n") {
			t.Errorf("%s: the programs have %q", dir, found)
		}
	}
}
