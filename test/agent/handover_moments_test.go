package agent

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/core/status"
)

// moment is one in a hand-over.
type moment string

const (
	// yielding: the older one has been asked, and begins to let go.
	yielding moment = "the older one lets go"
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
	events []kubelettest.Event
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

// In a hand-over the older agent's last list is before the newer one's first, and neither
// capacity nor what is allocatable dips, though one of the two is told to end in the middle,
// or the older one is killed after the newer one has registered. Where the one is killed
// that kubelet's streams hang on, its devices are away for as long as after the death of an
// agent that is alone, and capacity is not; then the other serves.
func TestSignalsInAHandOver(t *testing.T) {
	for _, c := range []struct {
		at    moment
		older bool // gets the signal
		with  syscall.Signal
		// dips: there may be a time without devices.
		dips bool
	}{
		{at: "never", with: syscall.SIGTERM},
		{at: yielding, older: true, with: syscall.SIGTERM},
		{at: registered, older: true, with: syscall.SIGTERM},
		{at: listed, older: true, with: syscall.SIGTERM},
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
			n, r := newNode(t), &record{at: c.at}
			n.kubelet = kubelettest.New(n.path("kubelet"), kubelettest.Options{OnEvent: r.observe})
			n.startKubelet()
			n.configure(oneBackend)
			older := n.newProgram("older", n.command("older", "--take-over"))
			older.command.Stderr = both{&n.log, r}
			older.start()
			older.wantRole(status.RoleActive)
			newer := n.newProgram("newer", n.command("newer", "--take-over"))
			victim, stays := newer, older
			if c.older {
				victim, stays = older, newer
			}
			r.mu.Lock()
			r.strike = func() { _ = victim.command.Process.Signal(c.with) }
			// accelmux-RESOURCE-PROCESS-NUMBER.sock
			socket := n.kubelet.State().Resources[gpu].Socket
			r.older = socket[:strings.LastIndex(socket, "-")]
			newer.start() // nobody may ask for the process before it is there
			r.mu.Unlock()
			if c.at == "never" {
				newer.wantRole(status.RoleActive)
				older.wantRole(status.RoleStandby)
			} else {
				n.eventually("the signal ends the process", victim.over)
				stays.wantRole(status.RoleActive)
			}
			n.wantCounts(gpu, 4, 4)
			n.eventually("no socket is left but one", func() bool {
				sockets, err := filepath.Glob(n.path("kubelet", "device-plugins", "accelmux-*"))
				return err == nil && len(sockets) == 1
			})
			r.mu.Lock()
			defer r.mu.Unlock()
			if late := r.olderAfterNewer(); len(late) > 0 {
				t.Errorf("the older one sent after the newer one's first list: %q", late)
			}
			capacity, allocatable, lasted := r.dips(4)
			if capacity < 4 || allocatable < 4 && !c.dips {
				t.Errorf("capacity dipped to %d, what is allocatable to %d, for %v", capacity, allocatable, lasted)
			}
			t.Logf("at least %d allocatable; fewer than 4 for %v", allocatable, lasted)
		})
	}
}

// both writes to two.
type both [2]interface{ Write([]byte) (int, error) }

func (b both) Write(text []byte) (int, error) {
	_, _ = b[1].Write(text)
	return b[0].Write(text)
}
