package deviceplugin

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/accelmux/accelmux/core/server"
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
			if seen[path] || len(path) > server.MaxPath || filepath.Dir(path) != dir || !valid.MatchString(filepath.Base(path)) {
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

// Verifies that sockets on which other processes listen are found, whatever they serve, and
// none of kubelet's, this process's and dead ones; and that those of a dead process go, while
// those of a live one, and what is not ours, stay.
func TestSocketsOfOthers(t *testing.T) {
	dir, err := os.MkdirTemp("", "x")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	own, err := newSockets(dir, filepath.Join(dir, "absent"))
	if err != nil {
		t.Fatal(err)
	}
	const kubelet, vendor, theirs, dead, hiddenDead, vendorDead = "kubelet.sock", "nvidia-gpu.sock", "accelmux-live-1.sock", "accelmux-dead-1.sock", ".accelmux-dead-2.sock", "other-dead.sock"
	ours := filepath.Base(own.next(dir, gpu))
	for _, name := range []string{kubelet, vendor, theirs, ours, dead, hiddenDead, vendorDead} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		if strings.Contains(name, "dead") {
			_ = l.Close()
			continue
		}
		defer func() { _ = l.Close() }()
	}
	const file = "accelmux-file.sock"
	if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := &Plugin{sockets: own, watch: &kubeletWatch{socket: filepath.Join(dir, kubelet)}}
	got := p.OtherSockets(t.Context())
	slices.Sort(got)
	if want := []string{filepath.Join(dir, theirs), filepath.Join(dir, vendor)}; !slices.Equal(got, want) {
		t.Errorf("others listen on %q, want %q", got, want)
	}
	if err := own.removeStale(t.Context(), slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err)
	}
	for _, name := range []string{kubelet, vendor, theirs, ours, dead, hiddenDead, vendorDead, file} {
		_, err := os.Lstat(filepath.Join(dir, name))
		if gone := name == dead || name == hiddenDead; (err != nil) != gone {
			t.Errorf("%s is gone: %v, want %v", name, err != nil, gone)
		}
	}
}
