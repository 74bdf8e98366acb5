package agent

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/core/status"
)

// moment is one in a takeover.
type moment string

const (
	// yielding: the older one has been told to stop, and begins to finish.
	yielding moment = "the older one finishes"
	// registered and listed are kubelet's: before the newer one's first list, and after.
	registered moment = "kubelet knows the newer one"
	listed     moment = "kubelet has the newer one's list"
)

// record is what kubelet saw of one resource, with a process that gets a signal at a moment.
type record struct {
	mu sync.Mutex
	// older is the prefix of the older agent's sockets; "" until it is known.
	older  string
	at     moment
	strike func()
	struck bool
	// successor is the process to which the older one says that kubelet is connected; it ends then.
	successor int
	events    []kubelettest.Event
}

// hit sends the signal if this is the moment.
func (r *record) hit(at moment) {
	if r.at == at && !r.struck {
		r.struck = true
		r.strike()
	}
}

func (r *record) observe(e kubelettest.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Resource != gpu || r.older == "" {
		return
	}
	r.events = append(r.events, e)
	if strings.HasPrefix(e.Socket, r.older) {
		return
	}
	switch e.Type {
	case kubelettest.EventRegistered:
		r.hit(registered)
	case kubelettest.EventDevices:
		r.hit(listed)
	}
}

// Write takes the older agent's log.
func (r *record) Write(text []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.Contains(string(text), "another agent takes over") {
		r.hit(yielding)
	}
	if _, after, ok := strings.Cut(string(text), `msg="kubelet is connected to the other agent" pid=`); ok {
		_, _ = fmt.Sscan(after, &r.successor)
	}
	return len(text), nil
}

// olderAfterNewer is what the older one sent after the newer one's first list.
func (r *record) olderAfterNewer() (late []string) {
	newer := false
	for _, e := range r.events {
		older := strings.HasPrefix(e.Socket, r.older)
		newer = newer || e.Type == kubelettest.EventDevices && !older
		if newer && older && e.Type == kubelettest.EventDevices {
			late = append(late, fmt.Sprintf("%s %s", e.At.Format(time.RFC3339Nano), filepath.Base(e.Socket)))
		}
	}
	return late
}

// dips are the least counts, and how long fewer than want were to be had.
func (r *record) dips(want int) (capacity, allocatable int, lasted time.Duration) {
	capacity, allocatable = want, want
	var since time.Time
	for _, e := range r.events {
		capacity, allocatable = min(capacity, e.Capacity), min(allocatable, e.Allocatable)
		switch {
		case e.Allocatable < want && since.IsZero():
			since = e.At
		case e.Allocatable >= want && !since.IsZero():
			lasted, since = lasted+e.At.Sub(since), time.Time{}
		}
	}
	return capacity, allocatable, lasted
}

// In a takeover the older agent's last list is before the newer one's first, and neither
// capacity nor what is allocatable dips, though one of the two is killed or told to stop in
// the middle: if it is the newer one, the older one answers kubelet until another one serves.
// Only if the older one is killed before kubelet is connected to the newer one, devices are
// unhealthy for a moment; capacity stays. On a slow machine the newer one may end only when the older one has
// learnt that kubelet is connected to it, and ends, too: then the newer one ends as an agent that is alone does.
func TestSignalsInATakeover(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at    moment
		older bool // gets the signal
		with  syscall.Signal
		// dips: there may be a time without devices.
		dips bool
	}{
		{at: "never", with: syscall.SIGTERM},
		{at: yielding, older: true, with: syscall.SIGKILL, dips: true},
		{at: registered, older: true, with: syscall.SIGKILL},
		{at: listed, older: true, with: syscall.SIGKILL},
		{at: yielding, with: syscall.SIGTERM},
		{at: registered, with: syscall.SIGTERM},
		{at: listed, with: syscall.SIGTERM},
		{at: yielding, with: syscall.SIGKILL},
		{at: registered, with: syscall.SIGKILL},
		{at: listed, with: syscall.SIGKILL},
	} {
		who := "newer"
		if c.older {
			who = "older"
		}
		t.Run(fmt.Sprintf("%s, %s to the %s one", c.at, c.with, who), func(t *testing.T) {
			t.Parallel()
			h := startPair(t, oneBackend, c.at)
			held := h.allocate("pod", gpu, 1)
			victim, serves := h.newer, h.newer
			if c.older {
				victim = h.older
			}
			h.begin(func() { _ = victim.command.Process.Signal(c.with) })
			h.eventually("the older one ends or the signal ends the newer one", func() bool { return h.older.over() || h.newer.over() })
			if c.at != "never" && !c.older {
				h.eventually("the signal ends the process", victim.over)
				serves = h.startProgram("third", "--take-over")
			}
			serves.wantRole(status.RoleActive)
			h.eventually("the older one has ended", h.older.over)
			h.wantCounts(gpu, 4, 4)
			h.eventually("no socket is left but one", func() bool { return len(h.sockets()) == 1 })
			if c.at == "never" {
				serves.wantHolder(held[0], "pod")
			}
			if err := h.startContainer("pod"); err != nil {
				t.Errorf("the pod's container does not start again: %v", err)
			}
			if after := h.allocate("after", gpu, 3); slices.Contains(after, held[0]) {
				t.Errorf("two containers have %v and %v", held, after)
			}
			h.seen.mu.Lock()
			defer h.seen.mu.Unlock()
			if late := h.seen.olderAfterNewer(); len(late) > 0 {
				t.Errorf("the older one sent after the newer one's first list: %q", late)
			}
			capacity, allocatable, lasted := h.seen.dips(4)
			alone := !c.older && c.at != "never" && h.seen.successor == victim.pid()
			if capacity < 4 || allocatable < 4 && !c.dips && !alone {
				t.Errorf("capacity dipped to %d, what is allocatable to %d, for %v", capacity, allocatable, lasted)
			}
			t.Logf("at least %d allocatable; fewer than 4 for %v", allocatable, lasted)
		})
	}
}

// pair is a node with an agent that serves, and a newer one on standby.
type pair struct {
	*node
	older, newer *program
	seen         *record
}

// startPair has the older one serve, the newer one wait, and all that comes recorded.
func startPair(t *testing.T, config string, at moment) *pair {
	t.Helper()
	n, r := newNode(t), &record{at: at}
	n.kubelet = kubelettest.New(n.path("kubelet"), kubelettest.Options{OnEvent: func(e kubelettest.Event) {
		n.observe(e)
		r.observe(e)
	}})
	n.startKubelet()
	n.configure(config)
	older := n.newProgram("older", n.command("older", "--take-over"))
	older.command.Stderr = tee{&n.log, r}
	older.start()
	older.wantRole(status.RoleActive)
	newer := n.startProgram("newer", "--take-over")
	newer.wantRole(status.RoleStandby)
	n.wantCounts(gpu, 4, 4) // kubelet may have the list a moment after the agent has sent it
	r.mu.Lock()
	defer r.mu.Unlock()
	// accelmux-RESOURCE-PROCESS-NUMBER.sock
	socket := n.kubelet.State().Resources[gpu].Socket
	r.older = socket[:strings.LastIndex(socket, "-")]
	return &pair{node: n, older: older, newer: newer, seen: r}
}

// begin tells the older one to stop; strike is called at the moment.
func (h *pair) begin(strike func()) {
	h.Helper()
	h.seen.mu.Lock()
	defer h.seen.mu.Unlock()
	h.seen.strike = strike
	h.kill(h.older.pid(), syscall.SIGTERM)
}

// sockets are the agents' in kubelet's directory.
func (h *pair) sockets() []string {
	h.Helper()
	paths, err := filepath.Glob(h.path("kubelet", "device-plugins", "accelmux-*"))
	if err != nil {
		h.Fatal(err)
	}
	return paths
}

// tee writes to two.
type tee [2]interface{ Write([]byte) (int, error) }

func (b tee) Write(text []byte) (int, error) {
	_, _ = b[1].Write(text)
	return b[0].Write(text)
}
