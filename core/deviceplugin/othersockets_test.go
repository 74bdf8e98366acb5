package deviceplugin

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A socket of another process of ours is found if somebody listens, with who that is and
// what it is for; others' and dead ones are not. Of all sockets that others listen on,
// kubelet's and our own are none.
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
	serve := func(path string, dies bool) {
		t.Helper()
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		if dies {
			_ = l.Close()
			return
		}
		t.Cleanup(func() { _ = l.Close() })
	}
	same, more := other.next(dir, "example.com/gpu"), other.next(dir, "example.com/gpu-abcdefgh")
	serve(own.next(dir, "example.com/gpu"), false)
	serve(same, false)
	serve(more, false)
	serve(other.next(dir, "example.com/gpu"), true)
	serve(filepath.Join(dir, "nvidia-gpu.sock"), false)
	short := other.next(dir, "example.com/gpu-x")
	serve(short, false)
	serve(filepath.Join(dir, "kubelet.sock"), false)
	if err := os.WriteFile(filepath.Join(dir, "no-socket"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := &Plugin{sockets: own, watch: &kubeletWatch{socket: filepath.Join(dir, "kubelet.sock")}, adverts: map[string]*advert{"example.com/gpu": nil, "example.com/nic": nil}}
	got := p.OtherSockets(t.Context())
	want := []OtherSocket{{same, os.Getpid(), "example.com/gpu"}, {more, os.Getpid(), ""}, {short, os.Getpid(), ""}}
	slices.SortFunc(want, func(a, b OtherSocket) int { return strings.Compare(a.Path, b.Path) })
	if !slices.Equal(got, want) {
		t.Errorf("found %+v, want %+v", got, want)
	}
	listening := p.Listening(t.Context())
	slices.Sort(listening)
	all := []string{same, more, short, filepath.Join(dir, "nvidia-gpu.sock")}
	slices.Sort(all)
	if !slices.Equal(listening, all) {
		t.Errorf("others listen on %q, want %q", listening, all)
	}
}
