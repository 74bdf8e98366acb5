package checkpoint_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/checkpoint"
)

func TestSweepOfAMissingDirectory(t *testing.T) {
	swept, err := checkpoint.Sweep(filepath.Join(t.TempDir(), "gone"), "state")
	if err != nil || len(swept) != 0 {
		t.Errorf("swept %v, %v; want nothing", swept, err)
	}
}

func TestQuarantineKeepsTheNewest(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	base := time.Now().Add(-time.Hour)
	for i := range 2*checkpoint.MaxQuarantined + 2 {
		content := fmt.Sprintf("bad %02d", i)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, base.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
		aside, err := checkpoint.Quarantine(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(aside)
		if err != nil || string(got) != content {
			t.Errorf("quarantined %q, %v; want %q", got, err, content)
		}
	}
	want := []string{"state.corrupt-1", "state.corrupt-2", "state.corrupt-3", "state.corrupt-4", "state.corrupt-5"}
	if diff := cmp.Diff(want, names(t, dir)); diff != "" {
		t.Errorf("directory (-want +got):\n%s", diff)
	}
	var kept []string
	for _, name := range want {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, string(data))
	}
	slices.Sort(kept)
	if diff := cmp.Diff([]string{"bad 07", "bad 08", "bad 09", "bad 10", "bad 11"}, kept); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}

// Verifies that a directory is moved aside too, even over a file, but never replaced, and that
// a link is moved itself.
func TestQuarantineOfOtherKinds(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	if _, err := checkpoint.Quarantine(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of nothing: error %v, want ErrNotExist", err)
	}
	target := filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range checkpoint.MaxQuarantined {
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		if _, err := checkpoint.Quarantine(path); err != nil {
			t.Fatal(err)
		}
	}
	var aside []string
	for i := range checkpoint.MaxQuarantined {
		if err := os.MkdirAll(filepath.Join(path, fmt.Sprint(i)), 0o700); err != nil {
			t.Fatal(err)
		}
		place, err := checkpoint.Quarantine(path)
		if err != nil {
			t.Fatal(err)
		}
		aside = append(aside, filepath.Join(place, fmt.Sprint(i)))
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := checkpoint.Quarantine(path); err == nil || !strings.Contains(err.Error(), "directories") {
		t.Errorf("no place is left: error %v", err)
	}
	for _, must := range append(aside, path, target) {
		if _, err := os.Lstat(must); err != nil {
			t.Error(err)
		}
	}
}
