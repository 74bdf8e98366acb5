package podresources

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// onSocket follows an owner by a real socket, with times of nearly nothing.
func onSocket(t *testing.T, timing Timing) (*owner, string) {
	t.Helper()
	socket := filepath.Join(socketDir(t), "pod-resources", "kubelet.sock")
	timing.Grace, timing.Unseen, timing.Settle = 1, 1, cmp.Or(timing.Settle, 1)
	timing.Timeout = cmp.Or(timing.Timeout, time.Minute) // for a busy machine
	o := follow(Options{Socket: socket, Timing: timing})
	o.lister = &client{socket: socket, quiet: timing.Quiet}
	return o, socket
}

// The real protocol, over kubelet's restart and a large answer.
func TestPodResources(t *testing.T) {
	o, socket := onSocket(t, Timing{})
	if err := o.Poll(t.Context()); err == nil || len(o.Notes()) != 1 {
		t.Errorf("error %v, notes %q without a socket", err, o.Notes())
	}
	s := &server{}
	stop := s.serve(t, socket)
	defer func() { stop() }()
	s.set(pod("p", "a"))
	poll(t, o)
	if got := o.presence.Containers; !slices.Equal(got, []Container{{"ns", "p", "main"}}) {
		t.Errorf("the containers are %v", got)
	}
	stop()
	if err := o.Poll(t.Context()); err == nil {
		t.Error("no error while kubelet is away")
	}
	stop = s.serve(t, socket)
	poll(t, o)
	// 6 MB: more than gRPC's own limit of 4.
	long := strings.Repeat("x", 1<<10)
	large := pod("large")
	for range 6 << 10 {
		large.Containers[0].Devices = append(large.Containers[0].Devices, &podresourcesv1.ContainerDevices{ResourceName: "other.com/x", DeviceIds: []string{long}})
	}
	s.set(large)
	poll(t, o)
	if !o.is() {
		t.Error("not gone")
	}
}

// A kubelet that has just started may not know its pods yet: its socket says how
// old it is, for us as well when we have just started.
func TestKubeletThatHasJustStarted(t *testing.T) {
	o, socket := onSocket(t, Timing{Settle: 10 * time.Minute})
	s := &server{}
	stop := s.serve(t, socket)
	defer func() { stop() }()
	s.set(pod("p", "a"))
	poll(t, o)
	s.set(pod("q"))
	poll(t, o)
	if o.is() || o.conclusive {
		t.Error("a kubelet that has just started was believed")
	}
	for name, made := range map[string]time.Time{"the future": time.Now().Add(time.Hour), "just now": time.Now()} {
		must(t, os.Chtimes(socket, made, made))
		poll(t, o)
		if o.is() {
			t.Errorf("a socket made in %s was believed", name)
		}
	}
	// One that is new to us is new, whatever its time says: the clock may have been set.
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(socket, old, old))
	poll(t, o)
	if o.is() {
		t.Error("a kubelet that came while we looked was believed at once, after the clock was set")
	}
	o.lister = &client{socket: socket} // we have just started
	poll(t, o)
	if !o.is() || !o.conclusive {
		t.Error("a kubelet that is up for long was not believed")
	}
}

// An answer during which kubelet was replaced counts for nothing.
func TestKubeletReplacedMeanwhile(t *testing.T) {
	o, socket := onSocket(t, Timing{})
	s := &server{}
	stop := s.serve(t, socket)
	defer stop()
	s.during = func() {
		made := time.Now().Add(-time.Minute)
		if err := os.Chtimes(socket, made, made); err != nil {
			t.Error(err)
		}
	}
	if err := o.Poll(t.Context()); err == nil || o.is() {
		t.Errorf("error %v", err)
	}
}

// A kubelet that does not answer is given up on.
func TestKubeletThatHangs(t *testing.T) {
	o, socket := onSocket(t, Timing{Timeout: 50 * time.Millisecond})
	s := &server{hang: make(chan struct{})}
	defer s.serve(t, socket)()
	defer close(s.hang)
	if err := o.Poll(t.Context()); err == nil || o.is() {
		t.Errorf("error %v", err)
	}
}

// A kubelet that has just started is not asked, which is no trouble, and is asked
// as soon as it has been up for long enough.
func TestKubeletIsNotAskedAtItsStart(t *testing.T) {
	o, socket := onSocket(t, Timing{Quiet: time.Minute})
	s := &server{}
	stop := s.serve(t, socket)
	defer func() { stop() }()
	s.set(pod("p"))
	var starting *startingError
	if err := o.Poll(t.Context()); !errors.As(err, &starting) || starting.left > time.Minute || starting.left < 30*time.Second {
		t.Errorf("a kubelet that has just started is asked: %v", err)
	}
	if o.is() || len(o.Notes()) > 0 {
		t.Errorf("the owner is gone, or there are notes: %q", o.Notes())
	}
	old := time.Now().Add(-2 * time.Minute)
	must(t, os.Chtimes(socket, old, old))
	o.lister = &client{socket: socket, quiet: time.Minute} // we have just started
	poll(t, o)
	if !o.is() {
		t.Error("a kubelet that is up for long was not asked")
	}
}
