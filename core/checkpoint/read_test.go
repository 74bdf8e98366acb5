package checkpoint_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/accelmux/accelmux/core/checkpoint"
)

// Verifies that damage, a newer version, a foreign file and an absent one have different errors.
func TestReadTellsDamageFromAbsence(t *testing.T) {
	const foreign, checksum = "does not start with the header of " + magic, "checksum"
	path := filepath.Join(t.TempDir(), "state")
	if _, err := checkpoint.Read(path, magic); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("absent: %v, want ErrNotExist", err)
	}
	must(t, checkpoint.Writer{}.Write(path, magic, []byte("payload")))
	sound, err := os.ReadFile(path)
	must(t, err)
	end := len(sound) - 1
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":            {nil, foreign},
		"no header":        {[]byte("hello world\n"), foreign},
		"part of a header": {[]byte("accelmux-test"), foreign},
		"zeroes":           {make([]byte, len(sound)), foreign},
		"header only":      {sound[:bytes.IndexByte(sound, '\n')+1], checksum},
		"no checksum":      {[]byte(magic + "\n"), checksum},
		"cut short":        {sound[:end], checksum},
		"longer":           {append(bytes.Clone(sound), 'x'), checksum},
		"flipped payload":  {append(bytes.Clone(sound[:end]), sound[end]^1), checksum},
		"other checksum":   {[]byte(magic + " sha256:00\n{}"), checksum},
		"other version":    {bytes.Replace(sound, []byte(magic), []byte("accelmux-test/22"), 1), `other version: it has "22"; this program reads only "1"`},
		"no version":       {[]byte("accelmux-test\n{}"), `other version: it has ""`},
	} {
		must(t, os.WriteFile(path, c.data, 0o600))
		if _, err := checkpoint.Read(path, magic); !errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want ErrCorrupt and %q", name, err, c.want)
		}
	}
}

// Verifies that nothing but a regular file of a bounded size is read, and nothing else is
// waited for.
func TestReadRefusesOtherKinds(t *testing.T) {
	for name, c := range map[string]struct {
		make func(path string) error
		want string
	}{
		"a fifo": {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "not a regular file"},
		"a link to a sound file": {func(path string) error {
			return errors.Join(checkpoint.Writer{}.Write(path+".real", magic, []byte("payload")), os.Symlink(path+".real", path))
		}, "is a symbolic link"},
		"too large": {func(path string) error {
			return errors.Join(checkpoint.Writer{}.Write(path, magic, nil), os.Truncate(path, checkpoint.MaxSize+1))
		}, "larger than"},
	} {
		path := filepath.Join(t.TempDir(), "state")
		must(t, c.make(path))
		_, err := checkpoint.Read(path, magic)
		if !errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want ErrCorrupt, %q and the path", name, err, c.want)
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
		must(t, os.WriteFile(path, data, 0o600))
		payload, err := checkpoint.Read(path, magic)
		if err != nil {
			if !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Fatalf("error %v, want ErrCorrupt", err)
			}
			return
		}
		must(t, checkpoint.Writer{}.Write(again, magic, payload))
		if got, _ := os.ReadFile(again); !bytes.Equal(got, data) {
			t.Errorf("accepted %q, but writes it as %q", data, got)
		}
	})
}
