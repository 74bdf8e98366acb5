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
// what it is for; others' and dead ones are not.
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
	p := &Plugin{sockets: own, adverts: map[string]*advert{"example.com/gpu": nil, "example.com/nic": nil}}
	got := p.OtherSockets(t.Context())
	want := []OtherSocket{{same, os.Getpid(), "example.com/gpu"}, {more, os.Getpid(), ""}, {short, os.Getpid(), ""}}
	slices.SortFunc(want, func(a, b OtherSocket) int { return strings.Compare(a.Path, b.Path) })
	if !slices.Equal(got, want) {
		t.Errorf("found %+v, want %+v", got, want)
	}
}
