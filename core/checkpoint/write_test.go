package checkpoint_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/checkpoint"
)

const magic = "accelmux-test/1"

func TestWriteThenReadGivesThePayloadBack(t *testing.T) {
	path, payload := filepath.Join(t.TempDir(), "made", "on", "demand", "state"), bytes.Repeat([]byte{0, 255, '\n', '\r'}, 1<<18)
	must(t, checkpoint.Writer{}.Write(path, magic, payload))
	if got, err := checkpoint.Read(path, magic); err != nil || !bytes.Equal(got, payload) {
		t.Errorf("read %d bytes, %v; want the %d that were written", len(got), err, len(payload))
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %o, %v; want 600", info.Mode(), err)
	}
}

func TestWriteRefusesWhatCannotBeReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	for _, bad := range []string{"", "two words", "line\nbreak"} {
		if err := (checkpoint.Writer{}).Write(path, bad, nil); err == nil {
			t.Errorf("magic %q was accepted", bad)
		}
	}
	must(t, checkpoint.Writer{}.Write(path, magic, nil))
	info, err := os.Stat(path) // only the header
	must(t, err)
	if err := (checkpoint.Writer{}).Write(path, magic, make([]byte, checkpoint.MaxSize-info.Size()+1)); err == nil {
		t.Error("a payload that leaves no room for the header was accepted")
	}
}

// Verifies that a failed step leaves the old file as it was, and nothing else.
func TestReplaceFailsWhole(t *testing.T) {
	full := syscall.ENOSPC
	for _, op := range []checkpoint.Op{checkpoint.OpCreate, checkpoint.OpWrite, checkpoint.OpSync, checkpoint.OpRename, checkpoint.OpSyncDir} {
		t.Run(string(op), func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "file")
			must(t, checkpoint.Writer{}.Replace(path, []byte("old"), 0o644))
			w := checkpoint.Writer{Before: func(o checkpoint.Op, _ string) error {
				if o == op {
					return full
				}
				return nil
			}}
			err := w.Replace(path, []byte("new"), 0o644)
			if !errors.Is(err, full) {
				t.Fatalf("error %v, want ENOSPC", err)
			}
			want, durable := "old", true
			if op == checkpoint.OpSyncDir {
				want, durable = "new", false
			}
			if errors.Is(err, checkpoint.ErrNotDurable) == durable {
				t.Errorf("error %v: ErrNotDurable is %v", err, !durable)
			}
			got, err := os.ReadFile(path)
			must(t, err)
			if string(got) != want {
				t.Errorf("content %q, want %q", got, want)
			}
			if diff := cmp.Diff([]string{"file"}, names(t, dir)); diff != "" {
				t.Errorf("directory (-want +got):\n%s", diff)
			}
		})
	}
}

// Verifies that Replace does not change what is in its way, and leaves no temporary file.
func TestReplaceOfWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	if err := (checkpoint.Writer{}).Write(filepath.Join(dir, "file", "state"), magic, nil); err == nil {
		t.Error("a directory that is a file: no error")
	}
	target := filepath.Join(dir, "state")
	must(t, os.MkdirAll(filepath.Join(target, "x"), 0o700))
	if err := (checkpoint.Writer{}).Write(target, magic, []byte("x")); err == nil {
		t.Error("a file over a directory: no error")
	}
	if diff := cmp.Diff([]string{"file", "state"}, names(t, dir)); diff != "" {
		t.Errorf("directory (-want +got):\n%s", diff)
	}
}

func TestReplaceGivesTheModeWhateverTheUmask(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "file")
	must(t, checkpoint.Writer{}.Replace(path, nil, 0o644))
	info, err := os.Stat(path)
	must(t, err)
	if got := info.Mode().Perm(); got != 0o644 {
		t.Errorf("mode %o, want 644", got)
	}
}

// Verifies that a process killed between the temporary file and the rename leaves the old
// content in place, and a file that Sweep removes.
func TestKilledBeforeRename(t *testing.T) {
	if path := os.Getenv("CHECKPOINT_TEST_PATH"); path != "" {
		w := checkpoint.Writer{Before: func(op checkpoint.Op, _ string) error {
			if op == checkpoint.OpRename {
				return syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			return nil
		}}
		_ = w.Write(path, magic, []byte("new"))
		return
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	must(t, checkpoint.Writer{}.Write(path, magic, []byte("old")))
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledBeforeRename$")
	cmd.Env = append(os.Environ(), "CHECKPOINT_TEST_PATH="+path)
	if err := cmd.Run(); err == nil {
		t.Fatal("the child was not killed")
	}
	if got := names(t, dir); len(got) != 2 {
		t.Fatalf("the child left %v, want a temporary file and the old one", got)
	}
	got, err := checkpoint.Read(path, magic)
	if err != nil || string(got) != "old" {
		t.Errorf("read %q, %v; want the old content", got, err)
	}
	for _, other := range []string{"state.tmp", ".other.1.tmp", ".state.json"} {
		must(t, os.WriteFile(filepath.Join(dir, other), nil, 0o600))
	}
	swept, err := checkpoint.Sweep(dir, "state")
	if err != nil || len(swept) != 1 {
		t.Errorf("swept %v, %v; want one", swept, err)
	}
	want := []string{".other.1.tmp", ".state.json", "state", "state.tmp"}
	if diff := cmp.Diff(want, names(t, dir)); diff != "" {
		t.Errorf("directory after the sweep (-want +got):\n%s", diff)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Verifies that an unsynced file is replaced as a whole, without a sync.
func TestUnsynced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	var ops []checkpoint.Op
	w := checkpoint.Writer{Unsynced: true, Before: func(op checkpoint.Op, _ string) error {
		ops = append(ops, op)
		return nil
	}}
	must(t, w.Write(path, magic, []byte("payload")))
	if payload, err := checkpoint.Read(path, magic); err != nil || string(payload) != "payload" {
		t.Errorf("read %q, %v", payload, err)
	}
	if diff := cmp.Diff([]checkpoint.Op{checkpoint.OpCreate, checkpoint.OpWrite, checkpoint.OpRename}, ops); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
