package bitstream

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A name finds a file of the directory, or a link within it, as in a volume of a ConfigMap, and
// nothing else.
func TestFind(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "bitstreams")
	content := green(metadata(), []byte("payload"))
	write := func(path string) {
		t.Helper()
		ok(t, os.MkdirAll(filepath.Dir(path), 0o700))
		ok(t, os.WriteFile(path, content, 0o600))
	}
	link := func(to, name string) {
		t.Helper()
		ok(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	write(filepath.Join(dir, "x.gbs"))
	write(filepath.Join(dir, "..2026", "mounted.gbs"))
	write(filepath.Join(top, "secret.gbs"))
	link("..2026", "..data")
	link("..data/mounted.gbs", "mounted.gbs")
	link("../secret.gbs", "up.gbs")
	link(filepath.Join(top, "secret.gbs"), "absolute.gbs")
	link("..", "parent")
	link("round.gbs", "round.gbs")
	link("nowhere.gbs", "dangling.gbs")
	ok(t, unix.Mkfifo(filepath.Join(dir, "pipe.gbs"), 0o600))
	for _, name := range []string{"x.gbs", "mounted.gbs"} {
		f, err := Find(dir, name)
		ok(t, err)
		if f.InterfaceID.String() != interfaceText || f.Path != filepath.Join(dir, name) {
			t.Errorf("%+v", f)
		}
		ok(t, f.Close())
	}
	for name, want := range map[string]string{
		"": "the name is empty", ".": "that is a directory", "..": "that is a directory", "/": "it is a path",
		"../secret.gbs": "it is a path", "/etc/passwd": "it is a path", "a/../x.gbs": "it is a path", "./x.gbs": "it is a path",
		"..2026/mounted.gbs": "it is a path", `..\secret.gbs`: "it is a path", "x.gbs\x00": "cannot be printed", "x\n.gbs": "cannot be printed",
		"x\xff.gbs": "cannot be printed", strings.Repeat("x", 256): "has 256 bytes, and a file's name has 255 at most",
		"up.gbs": "leads out of the directory", "absolute.gbs": "leads out of the directory", "parent": "leads out of the directory",
		"round.gbs": "round in circles", "dangling.gbs": "there is no such file", "y.gbs": "there is no such file",
		"..data": "no regular file", "pipe.gbs": "no regular file",
	} {
		f, err := Find(dir, name)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) || !strings.HasPrefix(err.Error(), "bitstream ") {
			t.Errorf("%q is %+v, %v, want %q", name, f, err, want)
		}
		if errors.Is(err, fs.ErrNotExist) != strings.Contains(want, "no such") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := CheckDirectory(filepath.Join(dir, "x.gbs")); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Error(err)
	}
	if _, err := Find(filepath.Join(top, "missing"), "x.gbs"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "the directory of bitstreams, ") {
		t.Error(err)
	}
}

// A file is opened once: the checked file is mapped and streamed, even if another has taken its
// name. A file that is written to is an error.
func TestOpenFile(t *testing.T) {
	payload := bytes.Repeat([]byte("0123456789abcdef"), 3000)
	path := file(t, "x.gbs", green(metadata(), payload))
	f := open(t, path)
	other := file(t, "other", green(metadata(interfaceText, acceleratorText), []byte("other")))
	ok(t, os.Rename(other, path))
	mapped, unmap, err := f.Map()
	ok(t, err)
	if !bytes.Equal(mapped, payload) {
		t.Errorf("%d bytes are mapped", len(mapped))
	}
	ok(t, unmap())
	if got, err := io.ReadAll(f.Reader()); err != nil || !bytes.Equal(got, payload) {
		t.Errorf("%d bytes are read, %v", len(got), err)
	}
	ok(t, f.Unchanged())

	for what, change := range map[string]func(path string) error{
		"its size": func(path string) error { return os.Truncate(path, 1000) },
		"its time": func(path string) error { return os.Chtimes(path, time.Time{}, time.Unix(1, 0)) },
	} {
		f := open(t, file(t, "y.gbs", green(metadata(), payload)))
		ok(t, f.Unchanged())
		ok(t, change(f.Path))
		if err := f.Unchanged(); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), f.Path) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// dying is a file whose bytes after the first cannot be read, or are gone.
type dying struct {
	fs.File
	whole []byte
	first int
	err   error
}

func (d *dying) ReadAt(b []byte, at int64) (int, error) {
	n := copy(b, d.whole[min(int(at), d.first):d.first])
	if n < len(b) {
		return n, d.err
	}
	return n, nil
}

func (d *dying) Close() error {
	d.first = -1
	return nil
}

// A file that is truncated while it is read, or that cannot be read, is an error at any
// position, and is closed.
func TestReadErrors(t *testing.T) {
	broken := errors.New("a broken disk")
	for name, whole := range map[string][]byte{
		"signed.gbs": green(metadata(), signature(2, 0, make([]byte, 50))), "x.xclbin": container(header(), usual()...),
		"image": signature(2, 0, make([]byte, 50)),
	} {
		real, err := os.Open(file(t, name, whole))
		ok(t, err)
		for first := range whole {
			for err, want := range map[error]string{io.EOF: "became shorter while it was read", broken: "cannot be read: a broken disk"} {
				d := &dying{File: real, whole: whole, first: first, err: err}
				f, err := New(name, d)
				switch {
				case err == nil && first < 16:
					t.Fatalf("%s with %d bytes is %+v", name, first, f)
				case err == nil || name == "image" && first >= 16:
				case !strings.Contains(err.Error(), want) || d.first != -1:
					t.Fatalf("%s with %d bytes: %v, want %q", name, first, err, want)
				}
			}
		}
		_ = real.Close()
	}
	// A file system without random access cannot be used.
	real, err := os.Open(file(t, "x", green(metadata(), []byte("p"))))
	ok(t, err)
	if f, err := New("x", struct{ fs.File }{real}); err == nil || !strings.Contains(err.Error(), "cannot read at an offset") {
		t.Errorf("%+v, %v", f, err)
	}
	if err := real.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("the file was left open: %v", err)
	}
	if _, err := New("x", real); err == nil || !strings.Contains(err.Error(), "bitstream x: it cannot be opened: ") {
		t.Error(err)
	}
}
