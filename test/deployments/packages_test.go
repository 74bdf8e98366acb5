package deployments

import (
	"bytes"
	"debug/elf"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// packaged is every file of the packages, with its mode, but documents and what lies beside the programs.
var packaged = map[string]string{
	"/etc/accelmux/accelmux.env":                          "-rw-r--r--",
	"/etc/accelmux/node.yaml":                             "-rw-r--r--",
	"/usr/bin/accelmux":                                   "-rwxr-xr-x",
	"/usr/lib/systemd/system/accelmux-nvidia-mps.service": "-rw-r--r--",
	"/usr/lib/systemd/system/accelmux.service":            "-rw-r--r--",
	"/usr/lib/tmpfiles.d/accelmux.conf":                   "-rw-r--r--",
	"/usr/libexec/accelmux/accelmux-backend-amd":          "-rwxr-xr-x",
	"/usr/libexec/accelmux/accelmux-backend-device":       "-rwxr-xr-x",
	"/usr/libexec/accelmux/accelmux-backend-fpga":         "-rwxr-xr-x",
	"/usr/libexec/accelmux/accelmux-backend-mock":         "-rwxr-xr-x",
	"/usr/libexec/accelmux/accelmux-backend-nvidia":       "-rwxr-xr-x",
	"/usr/libexec/accelmux/accelmux-net-hook":             "-rwxr-xr-x",
	"/usr/share/accelmux/backend-manifest.json":           "-rw-r--r--",
	"/usr/share/accelmux/nodeconfig.json":                 "-rw-r--r--",
	"/usr/share/doc/accelmux/README.md":                   "-rw-r--r--",
	"/usr/share/doc/accelmux/THIRD_PARTY_NOTICES":         "-rw-r--r--",
	"/usr/share/doc/accelmux/copyright":                   "-rw-r--r--",
	"/usr/share/doc/accelmux/amdgpu.ids.LICENSE":          "-rw-r--r--",
	"/usr/share/doc/accelmux/examples/device.yaml":        "-rw-r--r--",
	"/usr/share/doc/accelmux/examples/files.yaml":         "-rw-r--r--",
	"/usr/share/doc/accelmux/examples/kinds.yaml":         "-rw-r--r--",
	"/usr/share/doc/accelmux/examples/mock.yaml":          "-rw-r--r--",
	"/usr/share/doc/accelmux/sbom/accelmux.cdx.json":      "-rw-r--r--",
}

// edited are the files that people edit and upgrades keep.
var edited = []string{"/etc/accelmux/accelmux.env", "/etc/accelmux/node.yaml"}

// standIns returns a directory like bin, with small stand-ins for the programs and what lies beside them.
func standIns(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	commands, err := filepath.Glob(filepath.Join(root, "cmd", "accelmux*"))
	if err != nil || len(commands) < 7 {
		t.Fatalf("programs %q: %v", commands, err)
	}
	for _, command := range commands {
		// Wide modes, as some umasks give.
		path := filepath.Join(dir, filepath.Base(command))
		if err := errors.Join(os.WriteFile(path, []byte("#!/bin/sh\n"), 0o777), os.Chmod(path, 0o777)); err != nil {
			t.Fatal(err)
		}
	}
	must(t, filepath.Join(root, "backends/manifests.sh"), dir)
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "sbom"), 0o700), os.WriteFile(filepath.Join(dir, "THIRD_PARTY_NOTICES"), nil, 0o600),
		os.WriteFile(filepath.Join(dir, "sbom", "accelmux.cdx.json"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// beside returns the files in a directory like bin that the agent reads of the programs: manifests, schemas and presets.
func beside(t *testing.T, dir string) []string {
	t.Helper()
	files := strings.Fields(must(t, "bash", "-c", `cd "$0" && find accelmux-*.* -type f`, dir))
	for _, want := range []string{"accelmux-backend-mock.yaml", "accelmux-backend-nvidia.settings.schema.json", "accelmux-backend-device.presets/kvm.yaml"} {
		if !slices.Contains(files, want) {
			t.Fatalf("%s is not in %s: %q", want, dir, files)
		}
	}
	return files
}

// pack builds the packages of a directory like bin, and returns the deb.
func pack(t *testing.T, dir string) string {
	t.Helper()
	out := t.TempDir()
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "deployments/packages/build.sh"), dir, out)
	cmd.Env = append(os.Environ(), "NFPM="+nfpm, "VERSION=1.2.3", "ARCH=amd64", "SOURCE_DATE_EPOCH=1700000000")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, text)
	}
	return filepath.Join(out, "accelmux_1.2.3-1_amd64.deb")
}

// TestDeb verifies what the deb installs, all of it as root's, and which files it leaves alone
// when they were edited. The rpm is of the same list.
func TestDeb(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		lacks(t, "there is no dpkg-deb here")
	}
	dir := standIns(t)
	deb := pack(t, dir)
	got := map[string]string{}
	for line := range strings.Lines(must(t, "dpkg-deb", "-c", deb)) {
		fields := strings.Fields(line) // mode, owner, size, date, time, name
		if fields[1] != "root/root" {
			t.Errorf("not root's: %s", line)
		}
		if strings.HasPrefix(fields[0], "d") {
			if fields[0] != "drwxr-xr-x" {
				t.Errorf("mode: %s", line)
			}
			continue
		}
		got[strings.TrimPrefix(fields[5], ".")] = fields[0]
	}
	want := maps.Clone(packaged)
	for _, file := range beside(t, dir) {
		want["/usr/libexec/accelmux/"+file] = "-rw-r--r--"
	}
	documents, err := filepath.Glob(filepath.Join(root, "docs", "*"))
	if err != nil || len(documents) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	for _, document := range documents {
		want["/usr/share/doc/accelmux/docs/"+filepath.Base(document)] = "-rw-r--r--"
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	control := t.TempDir()
	must(t, "dpkg-deb", "-e", deb, control)
	if fields, err := os.ReadFile(filepath.Join(control, "control")); err != nil || !bytes.Contains(fields, []byte("\nDepends: libc6 (>= 2.")) {
		t.Errorf("the C library is no dependency: %v\n%s", err, fields)
	}
	conffiles, err := os.ReadFile(filepath.Join(control, "conffiles"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(edited, strings.Fields(string(conffiles))); diff != "" {
		t.Errorf("conffiles (-want +got):\n%s", diff)
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		must(t, "sh", "-n", filepath.Join(control, script))
	}
}

// TestCLibrary verifies that the packages ask for a glibc that is new enough for
// the programs that need one, that those bind a library's functions when they are
// called, as NVML may lack some, and that the other programs need no library.
func TestCLibrary(t *testing.T) {
	stated := regexp.MustCompile(`libc6 \(>= 2\.(\d+)\)[^/]*glibc >= 2\.(\d+)`).FindSubmatch(read(t, "deployments/packages/nfpm.yaml"))
	if stated == nil || !bytes.Equal(stated[1], stated[2]) {
		t.Fatalf("the packages state no glibc, or two: %q", stated)
	}
	limit, err := strconv.Atoi(string(stated[1]))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range programs(t) {
		program, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = program.Close() }()
		libraries, err := program.ImportedLibraries()
		if err != nil {
			t.Fatal(err)
		}
		if cgo := slices.Contains(strings.Fields(cgoPrograms(t)), "./cmd/"+filepath.Base(path)); !cgo && len(libraries) > 0 || cgo && !slices.Equal(libraries, []string{"libc.so.6"}) {
			t.Errorf("%s needs the libraries %q", filepath.Base(path), libraries)
		}
		symbols, _ := program.ImportedSymbols() // a static program has none
		for _, s := range symbols {
			version, _ := strings.CutPrefix(s.Version, "GLIBC_2.")
			minor, _, _ := strings.Cut(version, ".")
			if n, err := strconv.Atoi(minor); s.Version != "" && (err != nil || n > limit) {
				t.Errorf("%s needs %s of %s; the packages ask for 2.%d", filepath.Base(path), s.Version, s.Library, limit)
			}
		}
		for _, tag := range []elf.DynTag{elf.DT_BIND_NOW, elf.DT_FLAGS, elf.DT_FLAGS_1} {
			for _, value := range dynamic(t, program, tag) {
				if tag == elf.DT_BIND_NOW || tag == elf.DT_FLAGS && value&uint64(elf.DF_BIND_NOW) != 0 || tag == elf.DT_FLAGS_1 && value&uint64(elf.DF_1_NOW) != 0 {
					t.Errorf("%s binds all functions at its start", filepath.Base(path))
				}
			}
		}
	}
}

func dynamic(t *testing.T, program *elf.File, tag elf.DynTag) []uint64 {
	t.Helper()
	if program.Section(".dynamic") == nil {
		return nil
	}
	values, err := program.DynValue(tag)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// TestSampleConfigurations verifies that what the packages install as a
// configuration is one.
func TestSampleConfigurations(t *testing.T) {
	samples, err := filepath.Glob(filepath.Join(root, "deployments/examples/*.yaml"))
	if err != nil || len(samples) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, sample := range samples {
		must(t, filepath.Join(bin, "accelmux"), "validate", sample)
	}
}
