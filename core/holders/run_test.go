package holders

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/accelmux/accelmux/core/checkpoint"
)

// start runs the book until the test ends.
func start(t *testing.T, b *Book) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Verifies that Run lists at the interval and soon after an allocation, and sends the devices
// of holders that ended.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := newKubelet()
		opts := options(t, k)
		opts.Path, opts.Now = filepath.Join(dir, "usage"), time.Now
		b := open(t, k, opts)
		stop := start(t, b)
		calls := func(want int) {
			t.Helper()
			synctest.Wait()
			k.mu.Lock()
			defer k.mu.Unlock()
			k.now = time.Now()
			if k.calls != want {
				t.Errorf("kubelet was asked %d times, want %d", k.calls, want)
			}
		}
		calls(1)
		<-time.After(9 * time.Second)
		calls(1)
		<-time.After(1500 * time.Millisecond)
		calls(2)
		allocate(t, b, "a")
		k.shows(pod("p", "a"))
		calls(2)
		<-time.After(time.Second)
		calls(3)
		<-time.After(61 * time.Second) // six more
		calls(9)
		k.shows()
		if all := <-b.Ended(); len(all) != 1 || all[0].Device != key("a") {
			t.Errorf("ended: %v", all)
		}
		calls(10)
		// However many are allocated, the calls keep their distance.
		for range 100 {
			allocate(t, b, "b")
			synctest.Wait()
		}
		calls(10)
		stop() // although nothing receives the earlier holders of b
		must(t, b.Close())
	})
}

// Verifies that without kubelet the calls back off, nothing is released, and the problem is
// cleared when kubelet is back.
func TestRunWithoutKubelet(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := newKubelet()
		k.absent = true
		opts := options(t, k)
		opts.Path, opts.Now = filepath.Join(dir, "usage"), time.Now
		b := open(t, k, opts)
		stop := start(t, b)
		defer stop()
		allocate(t, b, "a")
		<-time.After(24 * time.Hour)
		synctest.Wait()
		k.mu.Lock()
		if k.calls < 24*45 || k.calls > 24*60+20 {
			t.Errorf("kubelet was asked %d times in a day", k.calls)
		}
		k.absent = false
		k.mu.Unlock()
		if !b.Held(key("a")) {
			t.Error("released by guess")
		}
		if notes := b.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "stay allocated") {
			t.Errorf("notes %q", notes)
		}
		<-time.After(2 * b.opts.Timing.RetryMax)
		synctest.Wait()
		if notes := b.Notes(); notes != nil {
			t.Errorf("notes %q", notes)
		}
	})
}

// Verifies that a full disk is a problem, which loses no allocation, and that the file is
// written when the disk has room again.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := newKubelet()
		opts := options(t, k)
		opts.Path = filepath.Join(dir, "usage")
		full := errors.New("no space left on device")
		var room atomic.Bool
		opts.Disk.Before = func(op checkpoint.Op, _ string) error {
			if !room.Load() && op == checkpoint.OpWrite {
				return full
			}
			return nil
		}
		b := open(t, k, opts)
		stop := start(t, b)
		allocate(t, b, "a")
		<-time.After(time.Hour)
		synctest.Wait()
		if notes := b.Notes(); len(notes) != 1 || !strings.Contains(notes[0], full.Error()) || !b.Held(key("a")) {
			t.Errorf("notes %q", notes)
		}
		room.Store(true)
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if s, err := readState(opts.Path); err != nil || len(s.Holds) != 1 || b.Notes() != nil {
			t.Errorf("%v, %v, notes %q", s, err, b.Notes())
		}
		stop()
		room.Store(false)
		allocate(t, b, "b")
		if err := b.Close(); !errors.Is(err, full) {
			t.Errorf("Close gives %v", err)
		}
	})
}

// The first allocation is on disk at once; those that follow closely go together.
func TestRunWritesNowAndThen(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := newKubelet()
		opts := options(t, k)
		opts.Path = filepath.Join(dir, "usage")
		b := open(t, k, opts)
		stop := start(t, b)
		defer stop()
		onDisk := func() int {
			t.Helper()
			synctest.Wait()
			s, err := readState(opts.Path)
			must(t, err)
			return len(s.Holds)
		}
		allocate(t, b, "a")
		if n := onDisk(); n != 1 {
			t.Errorf("%d holds are on disk right after the first allocation", n)
		}
		for _, u := range []string{"b", "c", "d"} {
			allocate(t, b, u)
			if n := onDisk(); n != 1 {
				t.Errorf("the file was written for %s alone, %d holds are on disk", u, n)
			}
		}
		<-time.After(b.opts.Timing.Write)
		if n := onDisk(); n != 4 {
			t.Errorf("%d of 4 holds are on disk after the pause", n)
		}
	})
}

// socketBook is a book that talks to a real socket, with settled times of nearly
// nothing.
func socketBook(t *testing.T, settle time.Duration) (*Book, string) {
	t.Helper()
	opts := options(t, newKubelet())
	opts.Socket, opts.Now = filepath.Join(socketDir(t), "pod-resources", "kubelet.sock"), time.Now
	opts.Timing = Timing{Grace: 1, Unseen: 1, Settle: settle, Timeout: time.Minute} // for a busy machine
	b, err := Open(opts)
	must(t, err)
	b.poller.lister.(*podResources).quiet = 0
	return b, opts.Socket
}

// The real protocol, over kubelet's restart and a large answer.
func TestPodResources(t *testing.T) {
	b, socket := socketBook(t, 1)
	if err := b.pollOnce(t.Context()); err == nil || len(b.Notes()) != 1 {
		t.Errorf("error %v, notes %q without a socket", err, b.Notes())
	}
	s := &server{}
	stop := s.serve(t, socket)
	defer func() { stop() }()
	allocate(t, b, "a")
	s.set(pod("p", "a"))
	poll(t, b)
	want := []string{"a ns/p/main"}
	if diff := cmp.Diff(want, users(b, "a")); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
	stop()
	if err := b.pollOnce(t.Context()); err == nil {
		t.Error("no error while kubelet is away")
	}
	stop = s.serve(t, socket)
	poll(t, b)
	// 6 MB: more than gRPC's own limit of 4.
	long := strings.Repeat("x", 1<<10)
	large := pod("large")
	for range 6 << 10 {
		large.Containers[0].Devices = append(large.Containers[0].Devices, &podresourcesv1.ContainerDevices{ResourceName: "other.com/x", DeviceIds: []string{long}})
	}
	s.set(large)
	poll(t, b)
	if b.Held(key("a")) {
		t.Error("not released")
	}
}

// A kubelet that has just started may not know its pods yet: its socket says how
// old it is, for us as well when we have just started.
func TestKubeletThatHasJustStarted(t *testing.T) {
	b, socket := socketBook(t, 10*time.Minute)
	s := &server{}
	stop := s.serve(t, socket)
	defer func() { stop() }()
	allocate(t, b, "a")
	s.set(pod("p", "a"))
	poll(t, b)
	s.set(pod("q"))
	poll(t, b)
	if !b.Held(key("a")) || complete(b) {
		t.Error("a kubelet that has just started was believed")
	}
	for name, made := range map[string]time.Time{"the future": time.Now().Add(time.Hour), "just now": time.Now()} {
		must(t, os.Chtimes(socket, made, made))
		poll(t, b)
		if !b.Held(key("a")) {
			t.Errorf("a socket made in %s was believed", name)
		}
	}
	// One that is new to us is new, whatever its time says: the clock may have been set.
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(socket, old, old))
	poll(t, b)
	if !b.Held(key("a")) {
		t.Error("a kubelet that came while we looked was believed at once, after the clock was set")
	}
	b.poller.lister = &podResources{socket: socket} // we have just started
	poll(t, b)
	if b.Held(key("a")) || !complete(b) {
		t.Error("a kubelet that is up for long was not believed")
	}
}

// An answer during which kubelet was replaced counts for nothing.
func TestKubeletReplacedMeanwhile(t *testing.T) {
	b, socket := socketBook(t, 1)
	s := &server{}
	stop := s.serve(t, socket)
	defer stop()
	allocate(t, b, "a")
	s.during = func() {
		made := time.Now().Add(-time.Minute)
		if err := os.Chtimes(socket, made, made); err != nil {
			t.Error(err)
		}
	}
	if err := b.pollOnce(t.Context()); err == nil || !b.Held(key("a")) {
		t.Errorf("error %v", err)
	}
}

// A kubelet that does not answer is given up on.
func TestKubeletThatHangs(t *testing.T) {
	b, socket := socketBook(t, 1)
	b.opts.Timing.Timeout = 50 * time.Millisecond
	s := &server{hang: make(chan struct{})}
	defer s.serve(t, socket)()
	defer close(s.hang)
	allocate(t, b, "a")
	if err := b.pollOnce(t.Context()); err == nil || !b.Held(key("a")) {
		t.Errorf("error %v", err)
	}
}

// A kubelet that has just started is not asked, which is no trouble, and is asked
// as soon as it has been up for long enough.
func TestKubeletIsNotAskedAtItsStart(t *testing.T) {
	b, socket := socketBook(t, 1)
	b.poller.lister.(*podResources).quiet = time.Minute
	s := &server{}
	stop := s.serve(t, socket)
	defer func() { stop() }()
	allocate(t, b, "a")
	s.set(pod("p"))
	var starting *startingError
	if err := b.pollOnce(t.Context()); !errors.As(err, &starting) || starting.left > time.Minute || starting.left < 30*time.Second {
		t.Errorf("a kubelet that has just started is asked: %v", err)
	}
	if !b.Held(key("a")) || len(b.Notes()) > 0 {
		t.Errorf("the device is free, or there are notes: %q", b.Notes())
	}
	old := time.Now().Add(-2 * time.Minute)
	must(t, os.Chtimes(socket, old, old))
	b.poller.lister = &podResources{socket: socket, quiet: time.Minute} // we have just started
	poll(t, b)
	if b.Held(key("a")) {
		t.Error("a kubelet that is up for long was not asked")
	}
}
