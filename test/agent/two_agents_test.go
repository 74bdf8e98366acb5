package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/test/patience"
)

// startFirst is a node with one agent, which takes no turns and whose devices kubelet has.
func startFirst(t *testing.T) (*node, *program) {
	t.Helper()
	n := newNode(t)
	n.startKubelet()
	n.configure(oneBackend)
	first := n.startProgram("first")
	first.wantRole(status.RoleActive)
	n.wantCounts(gpu, 4, 4) // kubelet may have the list a moment after the agent has sent it
	return n, first
}

func (p *program) wantRole(role status.Role) {
	p.Helper()
	p.eventually(fmt.Sprintf("%s is %s", filepath.Base(p.runDir), role), func() bool {
		report, err := p.client.Report(p.Context())
		return err == nil && report.Role == role && (len(report.NotReady) == 0) == (role != status.RoleSuccessor)
	})
}

// wantOther waits until `accelmux status` of this agent, for programs and for people,
// says that there is the other, in that role, and what to do.
func (p *program) wantOther(other *program, role status.Role, advice string) {
	p.Helper()
	var text, table string
	p.eventually(fmt.Sprintf("status of %s tells of %s", filepath.Base(p.runDir), filepath.Base(other.runDir)), func() bool {
		text, _, _ = accelmux(p.T, "status", "-o", "json", "--run-dir", p.runDir)
		table, _, _ = accelmux(p.T, "status", "--run-dir", p.runDir)
		var report status.Report
		if json.Unmarshal([]byte(text), &report) != nil {
			return false
		}
		for _, o := range report.Others {
			if o.PID == other.pid() && o.Role == role && o.Version != "" && !o.Since.IsZero() && strings.Contains(o.Note, advice) {
				return strings.Contains(table, fmt.Sprintf("there is another agent: %s", role)) &&
					strings.Contains(table, fmt.Sprintf("pid %d", o.PID)) && strings.Contains(table, advice)
			}
		}
		return false
	})
}

// specFile is the mock's CDI spec as it is on disk now.
func (n *node) specFile() os.FileInfo {
	n.Helper()
	info, err := os.Stat(n.path("cdi", "accelmux-mock-gpu.json"))
	if err != nil {
		n.Fatal(err)
	}
	return info
}

// Of two agents that take turns each says that there is the other: which it is, since
// when, in which role, and what to do if that is a mistake. When one is gone, the other
// says nothing of it.
func TestStatusSaysThatThereAreTwo(t *testing.T) {
	n := newNode(t)
	n.startKubelet()
	n.configure(oneBackend)
	older := n.startProgram("older", "--take-over")
	older.wantRole(status.RoleActive)
	newer := n.startProgram("newer", "--take-over")
	newer.wantRole(status.RoleActive)
	older.wantRole(status.RoleStandby)
	newer.wantOther(older, status.RoleStandby, "installed twice")
	older.wantOther(newer, status.RoleActive, "installed twice")
	older.signal(syscall.SIGTERM)
	n.eventually("the newer one is alone", func() bool {
		report, err := status.NewClient(newer.runDir).Report(t.Context())
		return err == nil && len(report.Others) == 0
	})
}

// A second agent that takes no turns ends at once, and says why; the first says that
// somebody tried, and goes on undisturbed.
func TestSecondAgentByMistake(t *testing.T) {
	n, first := startFirst(t)
	n.mark(gpu)
	second := n.startProgram("second")
	select {
	case <-second.ended:
	case <-time.After(patience.Long):
		t.Fatal("the second agent runs")
	}
	if second.command.ProcessState.Success() || !n.logged("stop it, or take over from it with --take-over and a --run-dir of its own") {
		t.Errorf("the second agent ended with %v", second.command.ProcessState)
	}
	if n.logged("waiting for another agent") {
		t.Error("the second agent waits for one that is there to stay")
	}
	first.wantOther(second, "refused", "--take-over")
	n.wantCounts(gpu, 4, 4)
	n.wantNoDip(gpu, 4)
}

// An agent that takes no turns ends when another one has taken over, and says why.
func TestTakeOverFromOneThatTakesNoTurns(t *testing.T) {
	n, first := startFirst(t)
	second := n.startProgram("second", "--take-over")
	second.wantRole(status.RoleActive)
	n.eventually("the first one has ended", first.over)
	if first.command.ProcessState.Success() || !n.logged("another agent has taken over; this one ends, as it runs without --take-over") {
		t.Errorf("the first agent ended with %v", first.command.ProcessState)
	}
	n.wantCounts(gpu, 4, 4)
}

// Two agents that know nothing of each other, as they have different state directories,
// but one CDI directory: the second says at once whom it waits for, then what is wrong, and
// touches nothing of the first's.
func TestSecondAgentWithAStateDirectoryOfItsOwn(t *testing.T) {
	n, first := startFirst(t)
	n.allocate("pod", gpu, 1)
	before := n.definitions("mock", "gpu")
	n.mark(gpu)
	for _, more := range [][]string{{}, {"--take-over"}} {
		second := n.startProgram("second", append(more, "--state-dir", n.path("another-state"))...)
		select {
		case <-second.ended:
		case <-time.After(patience.Long):
			t.Fatal("the second agent runs")
		}
		if second.command.ProcessState.Success() || !n.logged(fmt.Sprintf("another agent (pid %d) has locked %s: ", first.pid(), n.path("cdi", "accelmux-mock.lock"))) {
			t.Errorf("the second agent ended with %v", second.command.ProcessState)
		}
	}
	if after := n.definitions("mock", "gpu"); len(before) != 4 || fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the first agent's definitions were %v and are %v", before, after)
	}
	n.wantCounts(gpu, 4, 4)
	n.wantNoDip(gpu, 4)
	// A directory that was removed and made again is the first's as well.
	if err := os.Rename(n.path("cdi"), n.path("cdi-gone")); err != nil { // at once, unlike a removal
		t.Fatal(err)
	}
	n.eventually("the definitions are there again", func() bool { return len(n.definitions("mock", "gpu")) == 4 })
	second := n.startProgram("second", "--state-dir", n.path("another-state"))
	select {
	case <-second.ended:
	case <-time.After(patience.Long):
		t.Fatal("the second agent runs in a directory that was made again")
	}
	// When the first is gone, another one may be what it was.
	first.signal(syscall.SIGKILL)
	n.startProgram("second", "--state-dir", n.path("another-state")).wantRole(status.RoleActive)
}

// Two agents with state directories of their own share a node and a CDI directory if one of
// them publishes no specs, or those of a backend of another name: both serve, and neither
// touches the other's specs, whichever of them ends.
func TestAgentsShareTheCDIDirectory(t *testing.T) {
	for name, c := range map[string]struct {
		resource string // of the second agent
		backend  string
		specs    int
	}{
		"plain":   {"{name: example.com/second, injection: plain}", "mock", 0},
		"another": {"{name: example.com/second}", "another\n        command: accelmux-backend-mock", 4},
	} {
		t.Run(name, func(t *testing.T) {
			n, first := startFirst(t)
			n.mark(gpu)
			before := n.definitions("mock", "gpu")
			n.write("second.yaml", strings.NewReplacer("{name: "+gpu+"}", c.resource, "name: mock", "name: "+c.backend).Replace(oneBackend))
			start := func() *program {
				second := n.startProgram("second", "--config", n.path("second.yaml"), "--state-dir", n.path("another-state"))
				second.wantRole(status.RoleActive)
				n.wantCounts("example.com/second", 4, 4)
				return second
			}
			// wantSpecs wants those of the first agent, unchanged, and those of the second.
			wantSpecs := func(first map[string]string, second int) {
				t.Helper()
				if after := n.definitions("mock", "gpu"); !maps.Equal(after, first) {
					t.Errorf("the first agent's definitions were %v and are %v", first, after)
				}
				if after := n.definitions("another", "gpu"); len(after) != second {
					t.Errorf("the second agent's definitions are %v, want %d", after, second)
				}
			}
			second, held := start(), min(c.specs, 1)
			n.allocate("pod", "example.com/second", 1)
			wantSpecs(before, c.specs)
			second.signal(syscall.SIGTERM)
			wantSpecs(before, held)
			n.wantCounts(gpu, 4, 4)
			n.wantNoDip(gpu, 4)
			second = start()
			n.mark("example.com/second")
			first.signal(syscall.SIGTERM)
			wantSpecs(nil, c.specs)
			n.wantCounts("example.com/second", 4, 4)
			n.wantNoDip("example.com/second", 4)
			second.signal(syscall.SIGTERM)
			wantSpecs(nil, held)
		})
	}
}

// away is how long devices may be unhealthy when the agent that serves is killed and
// another one stands by.
const away = 5 * time.Second

// Whichever of two leaves first, and however: capacity stays, and what containers have; if
// the one that stands by leaves, or one that is told to, no device is unhealthy for a
// moment, and if the one that serves is killed, none is for long. At the end there is
// nothing of the one that left.
func TestWhicheverLeavesFirst(t *testing.T) {
	for name, c := range map[string]struct {
		older bool // leaves
		with  syscall.Signal
		// dips: the one that serves is killed, so that its streams break.
		dips bool
	}{
		"the older one is told to": {true, syscall.SIGTERM, false},
		"the older one is killed":  {true, syscall.SIGKILL, false},
		"the newer one is told to": {false, syscall.SIGTERM, false},
		"the newer one is killed":  {false, syscall.SIGKILL, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.startKubelet()
			n.configure(oneBackend)
			older := n.startProgram("older", "--take-over")
			older.wantRole(status.RoleActive)
			n.wantCounts(gpu, 4, 4) // kubelet may have the list a moment after the agent has sent it
			n.mark(gpu)
			held := n.allocate("before", gpu, 2)
			spec := n.specFile()
			newer := n.startProgram("newer", "--take-over")
			newer.wantRole(status.RoleActive)
			older.wantRole(status.RoleStandby)
			n.wantNoDip(gpu, 4)
			leaves, stays := newer, older
			if c.older {
				leaves, stays = older, newer
			}
			began := time.Now()
			leaves.signal(c.with)
			stays.wantRole(status.RoleActive)
			n.eventually("one socket is left, and kubelet is connected to it", func() bool {
				sockets, err := filepath.Glob(n.path("kubelet", "device-plugins", "accelmux-*"))
				r := n.kubelet.State().Resources[gpu]
				return err == nil && len(sockets) == 1 && r.Socket == sockets[0] && r.Connections == 1
			})
			n.wantCounts(gpu, 4, 4)
			if took := time.Since(began); c.dips && took > away {
				t.Errorf("the devices were there again %v after the kill, want it within %v", took, away)
			}
			n.wantCapacityKept(gpu, 4)
			if !c.dips {
				n.wantNoDip(gpu, 4)
			}
			if other := n.allocate("after", gpu, 2); slices.ContainsFunc(other, func(id string) bool { return slices.Contains(held, id) }) {
				t.Errorf("two containers have %v and %v", held, other)
			}
			if after := n.specFile(); !os.SameFile(spec, after) || !spec.ModTime().Equal(after.ModTime()) {
				t.Error("the CDI spec was removed or written anew, though no definition has changed")
			}
			if text, err := os.ReadFile(n.path("state", "lock")); err != nil || !strings.Contains(string(text), fmt.Sprintf("pid %d,", stays.pid())) {
				t.Errorf("the state directory is held by %q, %v", text, err)
			}
		})
	}
}
