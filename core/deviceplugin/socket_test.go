package deviceplugin

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A name is new, fits, and contains the resource's name if there is room.
func TestSocketNames(t *testing.T) {
	valid := regexp.MustCompile(`^accelmux-[A-Za-z0-9._-]+-[0-9a-f]{8}-\d+\.sock$`)
	rapid.Check(t, func(t *rapid.T) {
		dir := "/" + strings.Repeat("d", rapid.IntRange(1, 60).Draw(t, "dir"))
		names, err := newSockets(dir)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, resource := range rapid.SliceOf(rapid.StringMatching(`[a-z.]{1,200}/[A-Za-z0-9._-]{1,63}`)).Draw(t, "resources") {
			path := names.next(dir, resource)
			if seen[path] || len(path) > maxSocketPath || filepath.Dir(path) != dir || !valid.MatchString(filepath.Base(path)) {
				t.Fatalf("%s: %s (%d bytes)", resource, path, len(path))
			}
			seen[path] = true
		}
	})
	if _, err := newSockets("/" + strings.Repeat("d", 80)); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a directory that is too long: %v", err)
	}
	if a, b := slug(strings.Repeat("a", 90)+"/x", 32), slug(strings.Repeat("a", 90)+"/y", 32); a == b {
		t.Errorf("two resources share %s", a)
	}
	if got := slug("nvidia.com/gpu", 32); got != "nvidia.com_gpu" {
		t.Errorf("slug is %s", got)
	}
}

// Sockets of a dead process go; those of a live one, and what is not ours, stay.
func TestStaleSockets(t *testing.T) {
	dir, err := os.MkdirTemp("", "x")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	listen := func(name string) *net.UnixListener {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		return l
	}
	_ = listen("accelmux-dead-1.sock").Close()
	_ = listen(".accelmux-dead-2.sock").Close()
	_ = listen("other-dead.sock").Close()
	live := listen("accelmux-live-1.sock")
	defer func() { _ = live.Close() }()
	if err := os.WriteFile(filepath.Join(dir, "accelmux-file.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	names, err := newSockets(dir, filepath.Join(dir, "absent"))
	if err != nil {
		t.Fatal(err)
	}
	if err := names.removeStale(t.Context(), slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err)
	}
	for name, stays := range map[string]bool{
		"accelmux-dead-1.sock": false, ".accelmux-dead-2.sock": false, "other-dead.sock": true, "accelmux-live-1.sock": true, "accelmux-file.sock": true,
	} {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != stays {
			t.Errorf("%s is there: %v, want %v", name, err == nil, stays)
		}
	}
}

// Verifies that nobody who finds a socket by its name is refused: a second passes before
// kubelet's gRPC tries again.
func TestSocketListensAtOnce(t *testing.T) {
	dir, err := os.MkdirTemp("", "x")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for i := range 500 {
		path := filepath.Join(dir, fmt.Sprintf("accelmux-%d.sock", i))
		found := make(chan error)
		go func() {
			for {
				if err := accepts(t.Context(), path); !errors.Is(err, fs.ErrNotExist) && !os.IsTimeout(err) {
					found <- err
					return
				}
			}
		}()
		listener, err := listen(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-found; err != nil {
			t.Errorf("socket %d: %v", i, err)
		}
		_ = listener.Close()
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), hidden+filepath.Base(dir)))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Verifies that sockets on which other processes listen are found, whatever they serve, and
// none of kubelet's, this process's and dead ones.
func TestOtherSockets(t *testing.T) {
	dir, err := os.MkdirTemp("", "x")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	own, err := newSockets(dir)
	if err != nil {
		t.Fatal(err)
	}
	other, err := newSockets(dir)
	if err != nil {
		t.Fatal(err)
	}
	kubelet, vendor, theirs, dead := filepath.Join(dir, "kubelet.sock"), filepath.Join(dir, "nvidia-gpu.sock"), other.next(dir, "example.com/gpu"), other.next(dir, "example.com/gpu")
	for _, path := range []string{kubelet, vendor, theirs, dead, own.next(dir, "example.com/gpu")} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		if path == dead {
			_ = l.Close()
			continue
		}
		defer func() { _ = l.Close() }()
	}
	if err := os.WriteFile(filepath.Join(dir, "no-socket"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := &Plugin{sockets: own, watch: &kubeletWatch{socket: kubelet}}
	got := p.OtherSockets(t.Context())
	slices.Sort(got)
	if want := []string{theirs, vendor}; !slices.Equal(got, want) {
		t.Errorf("others listen on %q, want %q", got, want)
	}
}
