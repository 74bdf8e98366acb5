package statefile_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/statefile"
)

const magic = "accelmux-test/1"

func TestWriteThenReadGivesThePayloadBack(t *testing.T) {
	for name, payload := range map[string][]byte{
		"empty":   {},
		"text":    []byte(`{"a":1}`),
		"newline": []byte("\n\n"),
		"binary":  {0, 255, 10, 13},
		"large":   bytes.Repeat([]byte("x"), 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "made", "on", "demand", "state")
			if err := statefile.Write(path, magic, payload); err != nil {
				t.Fatal(err)
			}
			got, err := statefile.Read(path, magic)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, payload) {
				t.Errorf("read %q, want %q", got, payload)
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode().Perm(); got != 0o600 {
				t.Errorf("mode %o, want 600", got)
			}
		})
	}
}

func TestReadTellsDamageFromAbsence(t *testing.T) {
	sound := func(t *testing.T, path string) []byte {
		t.Helper()
		if err := statefile.Write(path, magic, []byte("payload")); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for name, damage := range map[string]func(data []byte) []byte{
		"empty":            func([]byte) []byte { return nil },
		"no header":        func([]byte) []byte { return []byte("payload") },
		"header only":      func(d []byte) []byte { return d[:bytes.IndexByte(d, '\n')+1] },
		"cut short":        func(d []byte) []byte { return d[:len(d)-1] },
		"longer":           func(d []byte) []byte { return append(d, 'x') },
		"flipped payload":  func(d []byte) []byte { d[len(d)-1] ^= 1; return d },
		"flipped checksum": func(d []byte) []byte { d[len(magic)+10] ^= 1; return d },
		"other version":    func(d []byte) []byte { return bytes.Replace(d, []byte(magic), []byte("accelmux-test/2"), 1) },
		"zeroes":           func(d []byte) []byte { return make([]byte, len(d)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state")
			if err := os.WriteFile(path, damage(sound(t, path)), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := statefile.Read(path, magic); !errors.Is(err, statefile.ErrCorrupt) {
				t.Errorf("error %v, want ErrCorrupt", err)
			}
		})
	}
	t.Run("absent", func(t *testing.T) {
		_, err := statefile.Read(filepath.Join(t.TempDir(), "state"), magic)
		if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, statefile.ErrCorrupt) {
			t.Errorf("error %v, want ErrNotExist", err)
		}
	})
	t.Run("a fifo", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state")
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := statefile.Read(path, magic); !errors.Is(err, statefile.ErrCorrupt) {
			t.Errorf("error %v, want ErrCorrupt", err)
		}
	})
}

func TestWriteRefusesWhatCannotBeReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	for _, bad := range []string{"", "two words", "line\nbreak"} {
		if err := statefile.Write(path, bad, nil); err == nil {
			t.Errorf("magic %q was accepted", bad)
		}
	}
	if err := statefile.Write(path, magic, make([]byte, statefile.MaxSize)); err == nil {
		t.Error("a payload that leaves no room for the header was accepted")
	}
}

// A step that fails leaves the old file as it was, and nothing else.
func TestReplaceFailsWhole(t *testing.T) {
	full := syscall.ENOSPC
	for _, op := range []statefile.Op{statefile.OpCreate, statefile.OpWrite, statefile.OpSync, statefile.OpRename, statefile.OpSyncDir} {
		t.Run(string(op), func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "file")
			if err := statefile.Replace(path, []byte("old"), 0o644); err != nil {
				t.Fatal(err)
			}
			w := statefile.Writer{Before: func(o statefile.Op, _ string) error {
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
			if op == statefile.OpSyncDir {
				want, durable = "new", false
			}
			if errors.Is(err, statefile.ErrNotDurable) == durable {
				t.Errorf("error %v: ErrNotDurable is %v", err, !durable)
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != want {
				t.Errorf("content %q, want %q", got, want)
			}
			if diff := cmp.Diff([]string{"file"}, names(t, dir)); diff != "" {
				t.Errorf("directory (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReplaceGivesTheModeWhateverTheUmask(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "file")
	if err := statefile.Replace(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o644 {
		t.Errorf("mode %o, want 644", got)
	}
}

// A process killed between the temporary file and the rename leaves the old
// content in place, and a file that Sweep removes.
func TestKilledBeforeRename(t *testing.T) {
	if path := os.Getenv("STATEFILE_TEST_PATH"); path != "" {
		w := statefile.Writer{Before: func(op statefile.Op, _ string) error {
			if op == statefile.OpRename {
				return syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			return nil
		}}
		_ = w.Write(path, magic, []byte("new"))
		return
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	if err := statefile.Write(path, magic, []byte("old")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledBeforeRename$")
	cmd.Env = append(os.Environ(), "STATEFILE_TEST_PATH="+path)
	if err := cmd.Run(); err == nil {
		t.Fatal("the child was not killed")
	}
	if got := names(t, dir); len(got) != 2 {
		t.Fatalf("the child left %v, want a temporary file and the old one", got)
	}
	got, err := statefile.Read(path, magic)
	if err != nil || string(got) != "old" {
		t.Errorf("read %q, %v; want the old content", got, err)
	}
	for _, other := range []string{"state.tmp", ".other.1.tmp", ".state.json"} {
		if err := os.WriteFile(filepath.Join(dir, other), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	swept, err := statefile.Sweep(dir, "state")
	if err != nil || len(swept) != 1 {
		t.Errorf("swept %v, %v; want one", swept, err)
	}
	want := []string{".other.1.tmp", ".state.json", "state", "state.tmp"}
	if diff := cmp.Diff(want, names(t, dir)); diff != "" {
		t.Errorf("directory after the sweep (-want +got):\n%s", diff)
	}
}

func TestSweepOfAMissingDirectory(t *testing.T) {
	swept, err := statefile.Sweep(filepath.Join(t.TempDir(), "gone"), "state")
	if err != nil || len(swept) != 0 {
		t.Errorf("swept %v, %v; want nothing", swept, err)
	}
}

func TestQuarantineKeepsOne(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	for _, content := range []string{"first", "second"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		aside, err := statefile.Quarantine(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(aside)
		if err != nil || string(got) != content {
			t.Errorf("quarantined %q, %v; want %q", got, err, content)
		}
	}
	if diff := cmp.Diff([]string{"state.corrupt"}, names(t, dir)); diff != "" {
		t.Errorf("directory (-want +got):\n%s", diff)
	}
}

// Whatever the bytes, Read never panics, and accepts only what carries the
// right checksum.
func FuzzRead(f *testing.F) {
	path := filepath.Join(f.TempDir(), "seed")
	if err := statefile.Write(path, magic, []byte("payload")); err != nil {
		f.Fatal(err)
	}
	seed, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(magic + " sha256:\n"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		path, again := filepath.Join(dir, "state"), filepath.Join(dir, "again")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		payload, err := statefile.Read(path, magic)
		if err != nil {
			if !errors.Is(err, statefile.ErrCorrupt) {
				t.Fatalf("error %v, want ErrCorrupt", err)
			}
			return
		}
		if err := statefile.Write(again, magic, payload); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(again); !bytes.Equal(got, data) {
			t.Errorf("accepted %q, but writes it as %q", data, got)
		}
	})
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
