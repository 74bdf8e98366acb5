package deployments

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cavaliergopher/rpm"
	"github.com/google/go-cmp/cmp"
)

// packaged is every file of the packages, with its mode.
var packaged = map[string]string{
	"/etc/accelmux/accelmux.env":                  "-rw-r--r--",
	"/etc/accelmux/node.yaml":                     "-rw-r--r--",
	"/usr/bin/accelmux":                           "-rwxr-xr-x",
	"/usr/lib/systemd/system/accelmux.service":    "-rw-r--r--",
	"/usr/lib/tmpfiles.d/accelmux.conf":           "-rw-r--r--",
	"/usr/libexec/accelmux/accelmux-backend-mock": "-rwxr-xr-x",
	"/usr/share/doc/accelmux/README.md":           "-rw-r--r--",
	"/usr/share/doc/accelmux/copyright":           "-rw-r--r--",
	"/usr/share/doc/accelmux/examples/files.yaml": "-rw-r--r--",
	"/usr/share/doc/accelmux/examples/mock.yaml":  "-rw-r--r--",
}

// edited are the files that people edit and upgrades keep.
var edited = []string{"/etc/accelmux/accelmux.env", "/etc/accelmux/node.yaml"}

// pack builds the packages from small stand-ins for the programs.
func pack(t *testing.T) (deb, rpm string) {
	t.Helper()
	programs, out := t.TempDir(), t.TempDir()
	for _, name := range []string{"accelmux", "accelmux-backend-mock"} {
		// Wide modes, as some umasks give.
		path := filepath.Join(programs, name)
		if err := errors.Join(os.WriteFile(path, []byte("#!/bin/sh\n"), 0o777), os.Chmod(path, 0o777)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "deployments/packages/build.sh"), programs, out)
	cmd.Env = append(os.Environ(), "NFPM="+nfpm, "VERSION=1.2.3", "ARCH=amd64", "SOURCE_DATE_EPOCH=1700000000")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, text)
	}
	return filepath.Join(out, "accelmux_1.2.3-1_amd64.deb"), filepath.Join(out, "accelmux-1.2.3-1.x86_64.rpm")
}

// TestDeb verifies what the deb installs, all of it as root's, and which files it
// leaves alone when they were edited.
func TestDeb(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("no dpkg-deb here")
	}
	deb, _ := pack(t)
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
	if diff := cmp.Diff(packaged, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	control := t.TempDir()
	must(t, "dpkg-deb", "-e", deb, control)
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

// TestRPM verifies the same of the rpm.
func TestRPM(t *testing.T) {
	_, path := pack(t)
	pkg, err := rpm.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	const configFile, noReplace = 1, 1 << 4 // RPMFILE_CONFIG, RPMFILE_NOREPLACE of rpmfiles.h
	got := map[string]string{}
	var kept []string
	for _, file := range pkg.Files() {
		if file.Owner() != "root" || file.Group() != "root" {
			t.Errorf("%s is not root's", file.Name())
		}
		if file.IsDir() {
			continue
		}
		got[file.Name()] = file.Mode().String()
		if file.Flags()&(configFile|noReplace) == configFile|noReplace {
			kept = append(kept, file.Name())
		}
	}
	if diff := cmp.Diff(packaged, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	slices.Sort(kept)
	if diff := cmp.Diff(edited, kept); diff != "" {
		t.Errorf("configuration files (-want +got):\n%s", diff)
	}
	if pkg.PostInstallScript() == "" || pkg.PreUninstallScript() == "" || pkg.PostUninstallScript() == "" {
		t.Error("a script is missing")
	}
}

// TestPackagesAreReproducible verifies that the same sources give the same deb.
func TestPackagesAreReproducible(t *testing.T) {
	first, firstRPM := pack(t)
	second, secondRPM := pack(t)
	for a, b := range map[string]string{first: second, firstRPM: secondRPM} {
		one, err := os.ReadFile(a)
		if err != nil {
			t.Fatal(err)
		}
		other, err := os.ReadFile(b)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(one, other) {
			t.Errorf("two builds of %s differ", filepath.Base(a))
		}
	}
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
