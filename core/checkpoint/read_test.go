package checkpoint_test

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/accelmux/accelmux/core/checkpoint"
)

func TestReadTellsDamageFromAbsence(t *testing.T) {
	sound := func(t *testing.T, path string) []byte {
		t.Helper()
		if err := (checkpoint.Writer{}).Write(path, magic, []byte("payload")); err != nil {
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
			if _, err := checkpoint.Read(path, magic); !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Errorf("error %v, want ErrCorrupt", err)
			}
		})
	}
	t.Run("other kinds of file", testReadRefusesOtherKinds)
	t.Run("absent", func(t *testing.T) {
		_, err := checkpoint.Read(filepath.Join(t.TempDir(), "state"), magic)
		if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, checkpoint.ErrCorrupt) {
			t.Errorf("error %v, want ErrNotExist", err)
		}
	})
}

// testReadRefusesOtherKinds: nothing but a regular file of a bounded size is
// read, and nothing else is waited for.
func testReadRefusesOtherKinds(t *testing.T) {
	for name, tc := range map[string]struct {
		make func(t *testing.T, path string) error
		want string
	}{
		"a fifo": {func(_ *testing.T, path string) error { return syscall.Mkfifo(path, 0o600) }, "not a regular file"},
		"a socket": {func(t *testing.T, path string) error {
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
			if err == nil {
				t.Cleanup(func() { _ = l.Close() })
			}
			return err
		}, "not a regular file"},
		"a directory": {func(_ *testing.T, path string) error { return os.Mkdir(path, 0o700) }, "not a regular file"},
		"a link to a sound file": {func(_ *testing.T, path string) error {
			return errors.Join(checkpoint.Writer{}.Write(path+".real", magic, []byte("payload")), os.Symlink(path+".real", path))
		}, "not a regular file"},
		"a dangling link": {func(_ *testing.T, path string) error { return os.Symlink(path+".gone", path) }, "not a regular file"},
		"too large": {func(_ *testing.T, path string) error {
			return errors.Join(checkpoint.Writer{}.Write(path, magic, nil), os.Truncate(path, checkpoint.MaxSize+1))
		}, "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "x") // short enough for a socket
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.RemoveAll(dir) }()
			path := filepath.Join(dir, "state")
			if err := tc.make(t, path); err != nil {
				t.Fatal(err)
			}
			_, err = checkpoint.Read(path, magic)
			if !errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want ErrCorrupt, %q and the path", err, tc.want)
			}
		})
	}
}

// Verifies that the error distinguishes a newer version from a foreign file.
func TestReadSaysWhatIsWrong(t *testing.T) {
	for content, want := range map[string]string{
		"":                               "does not start with the header of " + magic,
		"hello world\n":                  "does not start with the header of " + magic,
		"accelmux-test":                  "does not start with the header of " + magic,
		"accelmux-test/22 sha256:00\n{}": `its version is "22"; this program reads only "1"`,
		"accelmux-test\n{}":              `its version is ""`,
		magic + " sha256:00\n{}":         "checksum",
		magic + "\n":                     "checksum",
	} {
		path := filepath.Join(t.TempDir(), "state")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := checkpoint.Read(path, magic); !errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), want) {
			t.Errorf("of %q: error %v, want ErrCorrupt and %q", content, err, want)
		}
	}
}

// FuzzRead verifies for any bytes that Read never panics, and accepts only the right checksum.
func FuzzRead(f *testing.F) {
	path := filepath.Join(f.TempDir(), "seed")
	if err := (checkpoint.Writer{}).Write(path, magic, []byte("payload")); err != nil {
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
		payload, err := checkpoint.Read(path, magic)
		if err != nil {
			if !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Fatalf("error %v, want ErrCorrupt", err)
			}
			return
		}
		if err := (checkpoint.Writer{}).Write(again, magic, payload); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(again); !bytes.Equal(got, data) {
			t.Errorf("accepted %q, but writes it as %q", data, got)
		}
	})
}
