package rival

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/core/holders"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const gpu = "example.com/gpu"

// node is what the watch sees. The test has it but while it waits.
type node struct {
	mu       sync.Mutex
	sockets  []deviceplugin.OtherSocket
	listed   map[string]map[string]bool
	kubelets map[string]map[string]bool
	unasked  []holders.Unasked
	silent   bool
	compared int
	during   func() // called while kubelet is asked
	told     []string
	live     []string
	renewed  []string
}

func (n *node) watch() *Watch {
	return New(Options{
		Sockets: func(context.Context) []deviceplugin.OtherSocket { n.mu.Lock(); defer n.mu.Unlock(); return n.sockets },
		Served: func() map[string]int {
			n.mu.Lock()
			defer n.mu.Unlock()
			counts := map[string]int{}
			for name, ids := range n.listed {
				counts[name] = len(ids)
			}
			return counts
		},
		Listed: func(name string) map[string]bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.listed[name]
		},
		Allocatable: func(context.Context, func(string) bool) (map[string]map[string]bool, error) {
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
		Unasked:   func() []holders.Unasked { n.mu.Lock(); defer n.mu.Unlock(); return n.unasked },
		Listening: func(context.Context) []string { n.mu.Lock(); defer n.mu.Unlock(); return n.live },
		Renew:     func(name string) { n.mu.Lock(); defer n.mu.Unlock(); n.renewed = append(n.renewed, name) },
		Found:     func(r Rival) { n.mu.Lock(); defer n.mu.Unlock(); n.told = append(n.told, r.Message) },
	})
}

// run runs the watch on a node in which all is well.
func run(t *testing.T, act func(n *node, w *Watch)) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{
			listed:   map[string]map[string]bool{gpu: {"a": true, "b": false, "c": true}},
			kubelets: map[string]map[string]bool{gpu: {"a": true, "c": true}},
		}
		w := n.watch()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		synctest.Wait()
		n.mu.Lock()
		act(n, w)
		n.mu.Unlock()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (n *node) after(d time.Duration) {
	n.mu.Unlock()
	<-time.After(d)
	synctest.Wait()
	n.mu.Lock()
}

// want fails unless there is one sign that says this, or none for "".
func want(t *testing.T, w *Watch, when, text string) {
	t.Helper()
	rivals := w.Rivals()
	if text == "" && len(rivals) > 0 || text != "" && (len(rivals) != 1 || !strings.Contains(rivals[0].Message, text)) {
		t.Errorf("%s: %+v, want %q", when, rivals, text)
	}
}

// A socket that is there at one look is that of a hand-over; one that stays is another
// agent's, told of once, since it was seen first, and until it is gone.
func TestSocket(t *testing.T) {
	run(t, func(n *node, w *Watch) {
		n.sockets = []deviceplugin.OtherSocket{{Path: "/p/accelmux-x", PID: 7, Resource: gpu}}
		n.after(10 * time.Second)
		want(t, w, "at the first look", "")
		n.after(10 * time.Second)
		want(t, w, "at the second look", "pid 7")
		if age := time.Since(w.Rivals()[0].Since); age != 10*time.Second {
			t.Errorf("it is there for %v", age)
		}
		n.sockets[0].PID, n.sockets[0].Resource = 0, ""
		n.after(20 * time.Second)
		want(t, w, "one that serves others", "registers other resources")
		n.sockets = nil
		n.after(10 * time.Second)
		want(t, w, "later", "")
		n.sockets = []deviceplugin.OtherSocket{{Path: "/p/accelmux-y", PID: 8, Resource: gpu}}
		n.after(10 * time.Second)
		n.sockets = nil
		n.after(10 * time.Second)
		n.sockets = []deviceplugin.OtherSocket{{Path: "/p/accelmux-y", PID: 8, Resource: gpu}}
		n.after(10 * time.Second)
		want(t, w, "seen twice, not in a row", "")
		if len(n.told) != 2 {
			t.Errorf("told of %q", n.told)
		}
	})
}

// Kubelet's list counts if it differs in the same at two looks, the second of which
// follows soon; a kubelet that does not answer changes nothing.
func TestList(t *testing.T) {
	run(t, func(n *node, w *Watch) {
		n.after(50 * time.Second)
		if n.compared != 1 {
			t.Errorf("compared %d times in 50 s", n.compared)
		}
		n.kubelets = map[string]map[string]bool{gpu: {"GPU-1": true, "c": true}}
		n.after(10 * time.Second)
		want(t, w, "at the first look", "")
		n.after(10 * time.Second)
		want(t, w, "at the second look", "it has GPU-1; it lacks a:")
		if n.compared != 3 || len(n.told) != 1 {
			t.Errorf("compared %d times, told of %q", n.compared, n.told)
		}
		n.silent = true
		n.after(2 * time.Minute)
		want(t, w, "while kubelet is away", "it has GPU-1")
		n.silent, n.kubelets = false, map[string]map[string]bool{gpu: {"a": true, "c": true}}
		n.after(time.Minute)
		want(t, w, "later", "")
		// What this agent changes between two looks is no sign.
		n.kubelets = map[string]map[string]bool{gpu: {"c": true}}
		n.after(time.Minute)
		n.listed = map[string]map[string]bool{gpu: {"c": true}}
		n.after(time.Minute)
		want(t, w, "a list that followed", "")
		n.during = func() { n.listed, n.kubelets = map[string]map[string]bool{gpu: {"c": false}}, nil }
		for range 20 {
			n.listed = map[string]map[string]bool{gpu: {"c": true}}
			n.after(10 * time.Second)
		}
		want(t, w, "a change in the middle of a look", "")
	})
}

// So many units are not compared.
func TestManyUnits(t *testing.T) {
	run(t, func(n *node, _ *Watch) {
		n.listed = map[string]map[string]bool{gpu: {}}
		for i := range maxUnits + 1 {
			n.listed[gpu][time.Duration(i).String()] = true
		}
		n.after(10 * time.Minute)
		if n.compared != 1 {
			t.Errorf("compared %d times", n.compared)
		}
	})
}

// What kubelet gives out without asking is a sign once the resource has been served for a
// while, and stays one until the container is gone, also over kubelet's restart.
func TestContainer(t *testing.T) {
	run(t, func(n *node, w *Watch) {
		early := holders.Unasked{Holder: holders.Holder{Namespace: "ns", Pod: "early", Container: "main", Resource: gpu, Unit: "a"}, Since: time.Now().Add(29 * time.Second)}
		late := early
		late.Pod, late.Unit, late.Since = "late", "c", time.Now().Add(31*time.Second)
		n.after(40 * time.Second)
		n.unasked = []holders.Unasked{early, late}
		n.after(10 * time.Second)
		want(t, w, "at once", "c to container main of pod ns/late without asking")
		listed := n.listed
		n.listed = nil
		n.after(10 * time.Second)
		n.listed = listed
		n.after(time.Minute)
		want(t, w, "after kubelet's restart", "late")
		n.unasked = nil
		n.after(10 * time.Second)
		want(t, w, "when it is gone", "")
	})
}

// A resource is registered again once the plugin that kubelet has the list of has left, and
// never while that is there: it has left if one of the others' sockets has, if there is
// none, or if kubelet has no unit.
func TestRenew(t *testing.T) {
	theirs, none := map[string]map[string]bool{gpu: {"GPU-1": true}}, map[string]map[string]bool{gpu: {}}
	for name, c := range map[string]struct {
		live     []string
		kubelets map[string]map[string]bool
		then     func(n *node)
		want     int
	}{
		"it is there":                 {[]string{"vendor", "nic"}, theirs, func(*node) {}, 0},
		"another one comes":           {[]string{"vendor"}, theirs, func(n *node) { n.live = []string{"vendor", "nic"} }, 0},
		"its socket goes":             {[]string{"vendor", "nic"}, theirs, func(n *node) { n.live = []string{"nic"} }, 1},
		"it had gone already":         {nil, theirs, func(*node) {}, 1},
		"kubelet has nothing":         {[]string{"nic"}, none, func(*node) {}, 1},
		"kubelet has nothing by then": {[]string{"vendor", "nic"}, theirs, func(n *node) { n.live, n.kubelets = []string{"nic"}, none }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(n *node, w *Watch) {
				ours := n.kubelets
				n.live = c.live
				n.after(2 * time.Minute)
				if len(n.renewed) > 0 {
					t.Errorf("it is registered again though nothing is wrong")
				}
				n.kubelets = c.kubelets
				n.after(2 * time.Minute)
				c.then(n)
				n.after(time.Hour)
				// That it did not help is no reason to try again and again.
				if len(n.renewed) != c.want {
					t.Errorf("registered again: %q, want it %d times", n.renewed, c.want)
				}
				n.kubelets = ours
				n.after(2 * time.Minute)
				want(t, w, "when kubelet has our list", "")
				n.live = nil
				n.after(time.Hour)
				if len(n.renewed) != c.want {
					t.Errorf("registered again with nothing wrong: %q", n.renewed)
				}
			})
		})
	}
}
