package conflict

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const gpu = "example.com/gpu"

// node is what the detector compares. The test holds mu except while it waits.
type node struct {
	mu         sync.Mutex
	advertised Devices
	kubelets   Devices
	sockets    []string
	silent     bool
	compared   int
	during     func() // called while kubelet is asked
	found      []string
	registered int
}

// inBubble runs a detector in a bubble of time, for a node where kubelet has the two healthy
// devices, of three, that the agent advertises.
func inBubble(t *testing.T, test func(n *node, d *Detector)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &node{
			sockets:    []string{"vendor"},
			advertised: Devices{gpu: {"a": true, "b": false, "c": true}},
			kubelets:   Devices{gpu: {"a": true, "c": true}, "example.com/nic": {"n": true}},
		}
		d := New(Options{
			Advertised: func() Devices { n.mu.Lock(); defer n.mu.Unlock(); return n.advertised },
			Allocatable: func(context.Context) (Devices, error) {
				n.mu.Lock()
				defer n.mu.Unlock()
				n.compared++
				if n.during != nil {
					n.during()
				}
				if n.silent {
					return nil, errors.New("kubelet is away")
				}
				return n.kubelets, nil
			},
			Sockets:  func(context.Context) []string { n.mu.Lock(); defer n.mu.Unlock(); return n.sockets },
			Found:    func(c Conflict) { n.mu.Lock(); defer n.mu.Unlock(); n.found = append(n.found, c.Message) },
			Register: func(string) { n.mu.Lock(); defer n.mu.Unlock(); n.registered++ },
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = d.Run(ctx) })
		n.mu.Lock()
		test(n, d)
		n.mu.Unlock()
		cancel()
		running.Wait()
	})
}

func (n *node) after(d time.Duration) {
	n.mu.Unlock()
	<-time.After(d)
	synctest.Wait()
	n.mu.Lock()
}

// want fails unless there is one conflict whose message has this text, or none for "".
func want(t *testing.T, d *Detector, when, text string) {
	t.Helper()
	got := d.Conflicts()
	if text == "" && len(got) > 0 || text != "" && (len(got) != 1 || !strings.Contains(got[0].Message, text)) {
		t.Errorf("%s: %+v, want %q", when, got, text)
	}
}

// Verifies that a plugin which advertises the same devices is a conflict if its socket is named after the resource, and that
// the resource is registered again when it ends, also if kubelet keeps the devices.
func TestSameDevices(t *testing.T) {
	for socket, isFound := range map[string]bool{
		"/p/example-gpu.sock": true, "/p/example.com-gpu.sock": true, "/p/example.com_gpu": true, "/p/example-gpus.sock": false, "/p/other-gpu.sock": false,
	} {
		inBubble(t, func(n *node, d *Detector) {
			n.sockets = []string{socket}
			n.after(2 * time.Minute)
			if !isFound {
				want(t, d, socket, "")
				return
			}
			want(t, d, socket, "another device plugin listens on "+socket+", which is named after example.com/gpu: ")
			n.sockets = nil
			n.after(2 * time.Minute)
			want(t, d, "when it has ended", "")
			if n.registered != 1 {
				t.Errorf("%s: registered %d times, want 1", socket, n.registered)
			}
		})
	}
}

// Verifies that a difference is a conflict if two comparisons in a row find it, the second
// soon after the first, and that it is reported once and ends with the difference; a kubelet
// that does not answer changes nothing.
func TestConflict(t *testing.T) {
	inBubble(t, func(n *node, d *Detector) {
		n.after(time.Hour)
		want(t, d, "without a difference", "")
		if n.compared < 55 || n.compared > 62 {
			t.Errorf("%d comparisons in an hour, want one a minute", n.compared)
		}
		n.kubelets = Devices{gpu: {"GPU-1": true, "c": true}}
		n.after(10 * time.Second)
		want(t, d, "after one comparison", "")
		n.after(10 * time.Second)
		want(t, d, "after two", "it has GPU-1; it lacks a:")
		n.kubelets = Devices{gpu: {"GPU-1": true, "GPU-2": true, "GPU-3": true, "GPU-4": true}}
		n.after(10 * time.Second)
		want(t, d, "when the devices change", "it has GPU-1, GPU-2, GPU-3 and 1 more; it lacks a, c:")
		n.silent = true
		n.after(2 * time.Minute)
		want(t, d, "while kubelet is away", "it has GPU-1")
		n.silent, n.kubelets = false, Devices{gpu: {"a": true, "c": true}}
		n.after(time.Minute)
		want(t, d, "when the other plugin has left", "")
		if len(n.found) != 1 || n.registered != 0 {
			t.Errorf("reported %q, registered %d times", n.found, n.registered)
		}
		n.kubelets = Devices{gpu: {"GPU-1": true}}
		n.after(2 * time.Minute)
		n.advertised = Devices{}
		n.after(time.Minute)
		want(t, d, "when the resource is not served", "")
	})
}

// Verifies that a list which kubelet has yet to receive is no conflict.
func TestChangeIsNoConflict(t *testing.T) {
	inBubble(t, func(n *node, d *Detector) {
		n.kubelets = Devices{gpu: {"c": true}}
		n.after(time.Minute)
		n.advertised = Devices{gpu: {"c": true}}
		n.after(time.Minute)
		want(t, d, "a list that kubelet received before", "")
		n.during = func() { n.advertised, n.kubelets = Devices{gpu: {"c": false}}, nil }
		for range 20 {
			n.advertised = Devices{gpu: {"c": true}}
			n.after(10 * time.Second)
		}
		want(t, d, "a change during a comparison", "")
	})
}

// Verifies when a resource is registered again: once a socket of another plugin closes, if
// there is none, or if kubelet has no device of the resource; not while the other plugin
// runs, and not over and over without success.
func TestRegisteredAgain(t *testing.T) {
	theirs := Devices{gpu: {"GPU-1": true}}
	for name, c := range map[string]struct {
		sockets  []string
		kubelets Devices
		then     func(n *node)
		want     int
	}{
		"it runs":                     {[]string{"vendor"}, theirs, func(*node) {}, 0},
		"another one starts":          {[]string{"vendor"}, theirs, func(n *node) { n.sockets = []string{"vendor", "nic"} }, 0},
		"its socket closes":           {[]string{"vendor", "nic"}, theirs, func(n *node) { n.sockets = []string{"nic"} }, 1},
		"it has ended before":         {nil, theirs, func(*node) {}, 1},
		"kubelet has no device":       {[]string{"nic"}, Devices{}, func(*node) {}, 1},
		"kubelet has no device later": {[]string{"vendor"}, theirs, func(n *node) { n.kubelets = Devices{} }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(n *node, d *Detector) {
				ours := n.kubelets
				n.sockets, n.kubelets = c.sockets, c.kubelets
				n.after(2 * time.Minute)
				c.then(n)
				n.after(time.Hour)
				if n.registered != c.want {
					t.Errorf("registered %d times, want %d", n.registered, c.want)
				}
				n.kubelets = ours
				n.after(time.Minute)
				want(t, d, "when kubelet has our devices", "")
				n.sockets = nil
				n.after(time.Hour)
				if n.registered != c.want {
					t.Errorf("registered %d times without a conflict", n.registered-c.want)
				}
			})
		})
	}
}
