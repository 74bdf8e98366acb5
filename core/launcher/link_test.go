package launcher

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// Verifies that a launcher changes the mode of nothing that a link in place of its directory or its socket leads to. A
// process of the backend, which can write to both, puts the link there at any moment.
func TestLinks(t *testing.T) {
	victim := func(t *testing.T, dir string) (path string, untouched func() bool) {
		path = filepath.Join(dir, "victim")
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		return path, func() bool { info, err := os.Stat(path); return err == nil && info.Mode() == os.ModeDir|0o700 }
	}
	t.Run("directory", func(t *testing.T) {
		dir := t.TempDir()
		path, untouched := victim(t, dir)
		if err := os.Symlink(path, filepath.Join(dir, "s")); err != nil {
			t.Fatal(err)
		}
		listener, err := listen(filepath.Join(dir, "s", "launcher.sock"))
		if err == nil {
			_ = listener.Close()
		}
		if err == nil || !untouched() {
			t.Errorf("it listens: %v; the directory is untouched: %v", err, untouched())
		}
	})
	t.Run("socket", func(t *testing.T) {
		dir, err := os.MkdirTemp("", "l") // t.TempDir's are too long for a socket
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		path, untouched := victim(t, dir)
		socket, link := filepath.Join(dir, "launcher.sock"), filepath.Join(dir, "link")
		if err := os.Symlink(path, link); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		attacked := make(chan struct{})
		defer func() { <-attacked }()
		defer cancel()
		go func() {
			defer close(attacked)
			for ctx.Err() == nil {
				if os.Link(link, socket+".new") == nil { // a second name of the link
					if _, err := os.Lstat(socket); err == nil {
						_ = os.Rename(socket+".new", socket)
					}
					_ = os.Remove(socket + ".new")
				}
			}
		}()
		for range 500 {
			listener, err := listen(socket)
			if err == nil {
				_ = listener.Close()
			}
			if !untouched() {
				t.Fatal("the mode of what the link leads to was changed")
			}
		}
	})
}

// Verifies the modes of a launcher's directory and socket, whatever the umask is.
func TestModes(t *testing.T) {
	socket, _ := serve(t)
	for path, want := range map[string]os.FileMode{filepath.Dir(socket): os.ModeDir | os.ModeSetgid | 0o770, socket: os.ModeSocket | 0o660} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
}
