package smi

import (
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

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
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

func listen(t *testing.T, kinds ...Kind) (*Stream, *double) {
	t.Helper()
	d := &double{}
	s, err := Listen(d, 7, kinds...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, d
}

// say writes what the driver would, and waits until it was read.
func (d *double) say(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(d.in, text); err != nil {
		t.Fatal(err)
	}
}

func next(t *testing.T, s *Stream) Event {
	t.Helper()
	select {
	case e, ok := <-s.Events():
		if !ok {
			t.Fatalf("the stream has ended: %v", s.Err())
		}
		return e
	case <-time.After(10 * time.Second):
		t.Fatal("no event")
	}
	return Event{}
}

// Lines as kernels write them.
func TestParse(t *testing.T) {
	for line, want := range map[string]Event{
		"1 4d2:python3":                 {Kind: VMFault, PID: 1234, Process: "python3"},
		"1 1:a:b c":                     {Kind: VMFault, PID: 1, Process: "a:b c"},
		"2 100000000:1f":                {Kind: ThermalThrottle, Throttlers: 1 << 32, Count: 31},
		"2 ffffffffffffffff:0":          {Kind: ThermalThrottle, Throttlers: 1<<64 - 1},
		"3 1":                           {Kind: PreReset, Sequence: 1},
		"3 a ":                          {Kind: PreReset, Sequence: 10},
		"4 b GPU reset: ring gfx timed": {Kind: PostReset, Sequence: 11, Reason: "GPU reset: ring gfx timed"},
	} {
		if got, err := parse(line); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", line, got, err, want)
		}
	}
	for _, line := range []string{
		"", " ", "x", "1", "1 12", "1 zz:python", "1 -1:python", "2 1", "2 :1", "2 1:", "2 1:10000000000000000", "3", "3 ",
		"3 +1", "4 g", "4 100000000", "5 1 -2 @3(4) 5->6 7", "c 1 -2 3", "0 1", "100000000 1", "\x00\xff",
	} {
		if got, err := parse(line); err == nil {
			t.Errorf("%q was read as %+v", line, got)
		}
	}
}

// Events come whole and in order, however the reads cut them, between garbage.
func TestListen(t *testing.T) {
	s, d := listen(t, PreReset, PostReset, ThermalThrottle)
	if d.gpu != 7 || d.mask != 0b1110 {
		t.Errorf("GPU %d was asked for %b", d.gpu, d.mask)
	}
	d.say(t, "3 1 ring ")
	d.say(t, "timeout\n4 1 ring timeout\n2 1:")
	d.say(t, "2\ngarbage\n\n"+strings.Repeat("3 ", maxLine)+"\n1 1:not asked for\n3 2\n")
	want := []Event{
		{Kind: PreReset, Sequence: 1, Reason: "ring timeout"}, {Kind: PostReset, Sequence: 1, Reason: "ring timeout"},
		{Kind: ThermalThrottle, Throttlers: 1, Count: 2}, {Kind: PreReset, Sequence: 2},
	}
	for _, w := range want {
		if got := next(t, s); got != w {
			t.Errorf("%+v, want %+v", got, w)
		}
	}
	if n := s.Skipped(); n != 3 {
		t.Errorf("%d lines were skipped, want 3", n)
	}
}

// What is cut anywhere is the same as what comes at once.
func TestAnyCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOf(rapid.OneOf(
			rapid.StringMatching(`[0-9a-f:]{0,20}`), rapid.StringMatching(`x{250,260}`),
			rapid.SampledFrom([]string{"\n", "3 1\n", "\n\n"}))).Draw(t, "texts")
		whole := strings.Join(texts, "")
		var once, cut []string
		var a, b lines
		var droppedOnce, droppedCut int
		a.add([]byte(whole), func(line string) { once = append(once, line) }, func() { droppedOnce++ })
		for rest := whole; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			b.add([]byte(rest[:n]), func(line string) { cut = append(cut, line) }, func() { droppedCut++ })
			rest = rest[n:]
		}
		if !cmp.Equal(once, cut) || droppedOnce != droppedCut {
			t.Fatalf("%q, %d dropped; cut %q, %d", once, droppedOnce, cut, droppedCut)
		}
		for i, line := range once {
			if len(line) > maxLine || strings.Contains(line, "\n") {
				t.Fatalf("line %d has %d bytes", i, len(line))
			}
		}
	})
}

// A program that fails cannot pretend a reset by its name.
func TestForgedReset(t *testing.T) {
	for _, kinds := range [][]Kind{{VMFault, PreReset}, {PostReset, ThermalThrottle, VMFault}} {
		if s, err := Listen(&double{}, 7, kinds...); err == nil {
			t.Errorf("%v on one stream", kinds)
			_ = s.Close()
		}
	}
	s, d := listen(t, VMFault)
	d.say(t, "1 5:x\n3 1\n1 6:y\n")
	if first, second := next(t, s), next(t, s); first.PID != 5 || second.PID != 6 {
		t.Errorf("%+v, %+v", first, second)
	}
}

func TestListenRefuses(t *testing.T) {
	for _, kinds := range [][]Kind{nil, {0}, {5}, {PreReset, 64}, {1 << 40}} {
		if s, err := Listen(&double{}, 7, kinds...); err == nil || !strings.Contains(err.Error(), "GPU 7") {
			t.Errorf("%v: %v, %v", kinds, s, err)
		}
	}
	_, err := Listen(Node{Path: filepath.Join(t.TempDir(), "kfd")}, 7, PreReset)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "amdgpu driver loaded") {
		t.Errorf("without a driver: %v", err)
	}
}

// A GPU that goes away ends its stream with a reason, after the last event.
func TestGone(t *testing.T) {
	for _, c := range []struct {
		err  error
		want error
	}{{io.EOF, ErrEnded}, {&fs.PathError{Op: "read", Path: "x", Err: unix.ENODEV}, unix.ENODEV}} {
		s, d := listen(t, PreReset)
		d.say(t, "3 9\n")
		_ = d.in.CloseWithError(c.err)
		if e := next(t, s); e.Sequence != 9 {
			t.Errorf("%+v", e)
		}
		if e, ok := <-s.Events(); ok {
			t.Errorf("an event after the end: %+v", e)
		}
		if err := s.Err(); !errors.Is(err, ErrEnded) || !errors.Is(err, c.want) || !strings.Contains(err.Error(), "GPU 7") {
			t.Errorf("%v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("closed after the end: %v", err)
		}
	}
}

// Close ends a stream at once, even if nobody takes its events, and is no error.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d := listen(t, PreReset)
		go func() { _, _ = io.WriteString(d.in, strings.Repeat("3 1\n", 3*backlog)) }()
		synctest.Wait()
		if n := len(s.Events()); n != backlog {
			t.Errorf("%d events wait, want %d", n, backlog)
		}
		for range 2 {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := s.Err(); err != nil {
			t.Error(err)
		}
	})
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

// node is a Node whose ioctl gives one end of a pair of sockets; the other is the
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

// Through a real file: the mask goes to the driver, events come back, waiting ends
// when the stream is closed, and when the driver ends it.
func TestNode(t *testing.T) {
	for _, end := range []string{"ours", "the driver's"} {
		n, driver := node(t)
		s, err := Listen(n, 0xbeef, PreReset, PostReset)
		if err != nil {
			t.Fatal(err)
		}
		mask := make([]byte, 16)
		if got, err := driver.Read(mask); err != nil || got != 8 || binary.NativeEndian.Uint64(mask) != 0b1100 {
			t.Errorf("%d bytes of mask: %v, %v", got, mask, err)
		}
		raw, err := s.from.(*os.File).SyscallConn()
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
		for i, text := range []string{"3 1\n", "4 1\n"} {
			if _, err := driver.WriteString(text); err != nil {
				t.Fatal(err)
			}
			if e := next(t, s); e.Kind != []Kind{PreReset, PostReset}[i] {
				t.Errorf("%+v", e)
			}
		}
		if end == "ours" {
			if err := s.Close(); err != nil || s.Err() != nil {
				t.Errorf("%v, %v", err, s.Err())
			}
			continue
		}
		if err := driver.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Err(); !errors.Is(err, ErrEnded) {
			t.Errorf("%v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The real call on something that is not KFD's node.
func TestNotKFD(t *testing.T) {
	_, err := Node{Path: "/dev/null"}.Open(1, PreReset.mask())
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
		n, dropped := 0, 0
		take := func(line string) {
			n++
			if e, err := parse(line); err == nil && (e.Kind < VMFault || e.Kind > PostReset) {
				t.Errorf("%q: %+v", line, e)
			}
		}
		drop := func() { dropped++ }
		l.add(data[:at], take, drop)
		l.add(data[at:], take, drop)
		if n+dropped > strings.Count(string(data), "\n") || len(l.begun) > 2*maxLine+2 {
			t.Errorf("%d lines, %d dropped, %d begun", n, dropped, len(l.begun))
		}
	})
}
