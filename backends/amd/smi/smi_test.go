package smi

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/patience"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// double is a Source whose events come from a pipe.
type double struct {
	in   *io.PipeWriter
	mask uint64
	gpu  uint32
}

func (d *double) Open(gpuID uint32, mask uint64) (io.ReadCloser, error) {
	out, in := io.Pipe()
	d.in, d.gpu, d.mask = in, gpuID, mask
	return out, nil
}

// reading is a call of Read.
type reading struct {
	t      *testing.T
	events chan Event
	ended  chan error
	cancel context.CancelFunc
}

func read(t *testing.T, from Source, gpu uint32) *reading {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r := &reading{t: t, events: make(chan Event), ended: make(chan error, 1), cancel: cancel}
	go func() {
		r.ended <- Read(ctx, from, gpu, func(e Event) {
			select {
			case r.events <- e:
			case <-ctx.Done():
			}
		})
	}()
	return r
}

func (r *reading) next() Event {
	r.t.Helper()
	select {
	case e := <-r.events:
		return e
	case err := <-r.ended:
		r.t.Fatalf("the events have ended: %v", err)
	case <-time.After(patience.Long):
		r.t.Fatal("no event")
	}
	return Event{}
}

// Lines as kernels write them.
func TestParse(t *testing.T) {
	for line, want := range map[string]Event{
		"2 100000000:1f":                {Kind: ThermalThrottle, Count: 31},
		"2 ffffffffffffffff:0":          {Kind: ThermalThrottle},
		"3 1":                           {Kind: PreReset},
		"3 a ":                          {Kind: PreReset},
		"4 b GPU reset: ring gfx timed": {Kind: PostReset, Reason: "GPU reset: ring gfx timed"},
	} {
		if got, err := parse(line); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", line, got, err, want)
		}
	}
	for _, line := range []string{
		"", " ", "x", "1", "1 4d2:python3", "2 1", "2 :1", "2 1:", "2 1:10000000000000000", "3", "3 ",
		"3 +1", "4 g", "4 100000000", "5 1 -2 @3(4) 5->6 7", "c 1 -2 3", "0 1", "100000000 1", "\x00\xff",
	} {
		if got, err := parse(line); err == nil {
			t.Errorf("%q was read as %+v", line, got)
		}
	}
}

// Events come complete and in order, however the reads cut them, and without malformed lines. A
// program that fails has no line by which it could pretend a reset.
func TestRead(t *testing.T) {
	d := &double{}
	synctest.Test(t, func(t *testing.T) {
		r := read(t, d, 7)
		synctest.Wait()
		if d.gpu != 7 || d.mask != 0b1110 {
			t.Errorf("GPU %d was asked for %b", d.gpu, d.mask)
		}
		go func() {
			for _, text := range []string{
				"3 1 ring ", "timeout\n4 1 ring timeout\n2 1:",
				"2\ngarbage\n\n" + strings.Repeat("3 ", maxLine) + "\n1 1:not asked for\n3 2\n",
			} {
				_, _ = io.WriteString(d.in, text)
			}
		}()
		for _, want := range []Event{
			{Kind: PreReset, Reason: "ring timeout"}, {Kind: PostReset, Reason: "ring timeout"},
			{Kind: ThermalThrottle, Count: 2}, {Kind: PreReset},
		} {
			if got := r.next(); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
		r.cancel()
		if err := <-r.ended; err != nil {
			t.Errorf("at the end of the context: %v", err)
		}
	})
}

// The error names what an operator can do.
func TestNoDriver(t *testing.T) {
	err := Read(t.Context(), Node{Path: filepath.Join(t.TempDir(), "kfd")}, 7, nil)
	if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), "amdgpu driver loaded") {
		t.Errorf("without a driver: %v", err)
	}
}

// A GPU that is gone ends its events with a reason, after the last event.
func TestGone(t *testing.T) {
	for _, c := range []struct {
		err  error
		want error
	}{{io.EOF, ErrEnded}, {&fs.PathError{Op: "read", Path: "x", Err: unix.ENODEV}, unix.ENODEV}} {
		synctest.Test(t, func(t *testing.T) {
			d := &double{}
			r := read(t, d, 7)
			synctest.Wait()
			go func() {
				_, _ = io.WriteString(d.in, "3 9\n")
				_ = d.in.CloseWithError(c.err)
			}()
			if e := r.next(); e.Kind != PreReset {
				t.Errorf("%+v", e)
			}
			if err := <-r.ended; !errors.Is(err, ErrEnded) || !errors.Is(err, c.want) || !strings.Contains(err.Error(), "GPU 7") {
				t.Errorf("%v", err)
			}
		})
	}
}

// The number of the ioctl is made of its parts, as _IOWR does on the machines that
// amdgpu runs on.
func TestRequest(t *testing.T) {
	const read, write = 2, 1
	size := uint32(binary.Size(struct{ GPU, File uint32 }{}))
	if want := uint32((read|write)<<30) | size<<16 | 'K'<<8 | 0x1f; request != want {
		t.Errorf("%#x, want %#x", uint32(request), want)
	}
}

// node returns a Node whose ioctl gives one end of a pair of sockets; the other is the
// driver's.
func node(t *testing.T) (Node, *os.File) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
	if err != nil {
		t.Fatal(err)
	}
	driver := os.NewFile(uintptr(pair[1]), "driver")
	t.Cleanup(func() { _ = driver.Close() })
	path := filepath.Join(t.TempDir(), "kfd")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return Node{Path: path, call: func(fd int, a *arguments) error {
		if fd < 0 || a.gpuID != 0xbeef {
			t.Errorf("fd %d, GPU %#x", fd, a.gpuID)
		}
		a.file = uint32(pair[0])
		return nil
	}}, driver
}

// Through a real file: the mask goes to the driver, events come back, and reading ends when the
// context does.
func TestNode(t *testing.T) {
	n, driver := node(t)
	r := read(t, n, 0xbeef)
	mask := make([]byte, 16)
	if got, err := driver.Read(mask); err != nil || got != 8 || binary.NativeEndian.Uint64(mask) != 0b1110 {
		t.Errorf("%d bytes of mask: %v, %v", got, mask, err)
	}
	for i, text := range []string{"3 1\n", "4 1\n"} {
		if _, err := driver.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if e := r.next(); e.Kind != []Kind{PreReset, PostReset}[i] {
			t.Errorf("%+v", e)
		}
	}
	r.cancel()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

// Children do not inherit the file.
func TestCloseOnExec(t *testing.T) {
	n, _ := node(t)
	file, err := n.Open(0xbeef, mask)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	raw, err := file.(*os.File).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		if flags, err := unix.FcntlInt(fd, unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("children inherit the file: %v, %v", flags, err)
		}
	}); err != nil {
		t.Error(err)
	}
}

// The real call on something that is not KFD's node.
func TestNotKFD(t *testing.T) {
	_, err := Node{Path: "/dev/null"}.Open(1, mask)
	if !errors.Is(err, unix.ENOTTY) || !strings.Contains(err.Error(), "/dev/null") || !strings.Contains(err.Error(), "not KFD's node") {
		t.Errorf("%v", err)
	}
}

func FuzzLines(f *testing.F) {
	for _, s := range []string{"3 1\n", "1 4d2:python3\n2 1:2\n4 1 x y\n", "3 1", "\n\n", strings.Repeat("x", 600) + "\n3 1\n"} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, data []byte, at int) {
		var l lines
		at = max(0, min(at, len(data)))
		n := 0
		take := func(line string) {
			n++
			if e, err := parse(line); err == nil && (e.Kind < ThermalThrottle || e.Kind > PostReset) {
				t.Errorf("%q: %+v", line, e)
			}
		}
		l.add(data[:at], take)
		l.add(data[at:], take)
		if n > strings.Count(string(data), "\n") || len(l.begun) > 2*maxLine+2 {
			t.Errorf("%d lines, %d begun", n, len(l.begun))
		}
	})
}
