package manifest

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Verifies that Read finds beside a program all that was installed there, also where an earlier version's files are, and that
// nobody but the owner may write any of it, whatever the umask.
func TestInstalled(t *testing.T) {
	const script = "../../backends/manifests.sh"
	if _, err := os.Stat(script); err != nil { // a cached result is only good for this script
		t.Fatal(err)
	}
	install := func(args string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "bash", "-c", "umask 000; exec "+script+" "+args).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	sources, err := filepath.Glob("../../backends/*/manifest.yaml")
	if err != nil || len(sources) < 5 {
		t.Fatalf("%d manifests: %v", len(sources), err)
	}
	dir := t.TempDir()
	programs := map[string]string{filepath.Join(dir, "camera"): "../../backends/examples/camera/manifest.yaml"}
	for _, source := range sources {
		programs[filepath.Join(dir, "accelmux-backend-"+filepath.Base(filepath.Dir(source)))] = source
	}
	old := filepath.Join(dir, "accelmux-backend-device.presets")
	failures := []error{os.Mkdir(old, 0o755), os.WriteFile(filepath.Join(old, "gone.yaml"), []byte("class: gpu\n"), 0o600)} // of an earlier version
	for program := range programs {
		failures = append(failures, os.WriteFile(program, nil, 0o600))
	}
	if err := errors.Join(failures...); err != nil {
		t.Fatal(err)
	}
	install(dir)
	install("../../backends/examples/camera " + filepath.Join(dir, "camera"))
	for program, source := range programs {
		want, err := Load(source)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Load(program + ".yaml"); err != nil {
			t.Error(err)
		} else if got.Sum != want.Sum {
			t.Errorf("%s has other files than %s (presets -want +got):\n%s", program, source, cmp.Diff(want.Presets, got.Presets))
		}
	}
	err = fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if info, infoErr := entry.Info(); path != "." && (infoErr != nil || info.Mode()&0o022 != 0) {
			t.Errorf("%s: %s, %v", path, fs.FormatFileInfo(info), infoErr)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
