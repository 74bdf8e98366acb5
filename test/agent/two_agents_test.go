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

// startFirst is a node with one agent, without --take-over, whose devices kubelet has.
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
		return err == nil && report.Role == role && len(report.NotReady) == 0
	})
}

// wantOther waits until `accelmux status` of this agent, for programs and for people,
// says that there is the other, in that role, and what to do.
func (p *program) wantOther(other *program, role status.Role, advice string) {
	p.Helper()
	var text, table string
	p.eventually(fmt.Sprintf("status of %s shows %s", filepath.Base(p.runDir), filepath.Base(other.runDir)), func() bool {
		text, _, _ = accelmux(p.T, "status", "-o", "json", "--run-dir", p.runDir)
		table, _, _ = accelmux(p.T, "status", "--run-dir", p.runDir)
		var report status.Report
		if json.Unmarshal([]byte(text), &report) != nil {
			return false
		}
		for _, o := range report.Others {
			if o.PID == other.pid() && o.Role == role && o.Host != "" && !o.Since.IsZero() && strings.Contains(o.Note, advice) {
				return strings.Contains(table, fmt.Sprintf("another agent: %s", role)) &&
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

// Of two agents with --take-over each reports the other: which it is, since when, in which
// role, and what to do if that is a mistake. When one has ended, the other does not report
// it any more.
func TestStatusOfTwoAgents(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.startKubelet()
	n.configure(oneBackend)
	older := n.startProgram("older", "--take-over")
	older.wantRole(status.RoleActive)
	newer := n.startProgram("newer", "--take-over")
	newer.wantRole(status.RoleStandby)
	newer.wantOther(older, status.RoleActive, "installed twice")
	older.wantOther(newer, status.RoleStandby, "installed twice")
	if text, _, code := accelmux(t, "status", "--ready", "--run-dir", newer.runDir); code != 0 || text != "ready to take over\n" {
		t.Errorf("the agent on standby is ready with exit status %d: %q", code, text)
	}
	older.signal(syscall.SIGTERM)
	n.eventually("the newer one is alone", func() bool {
		report, err := status.NewClient(newer.runDir).Report(t.Context())
		return err == nil && report.Role == status.RoleActive && len(report.Others) == 0
	})
}

// A second agent without --take-over ends, and says why; the first goes on undisturbed.
func TestSecondAgentByMistake(t *testing.T) {
	t.Parallel()
	n, first := startFirst(t)
	n.mark(gpu)
	second := n.startProgram("second")
	select {
	case <-second.ended:
	case <-time.After(patience.Long):
		t.Fatal("the second agent runs")
	}
	if second.command.ProcessState.Success() || !n.logged(fmt.Sprintf("another agent (pid %d on ", first.pid())) ||
		!n.logged("stop it, or wait for its end with --take-over and a --run-dir of its own") {
		t.Errorf("the second agent ended with %v", second.command.ProcessState)
	}
	n.wantCounts(gpu, 4, 4)
	n.wantNoDip(gpu, 4)
}

// Two agents that know nothing of each other, as they have different state directories,
// but one CDI directory: the second says at once whom it waits for, then what is wrong, and
// touches nothing of the first's.
func TestSecondAgentWithAStateDirectoryOfItsOwn(t *testing.T) {
	t.Parallel()
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
		if second.command.ProcessState.Success() || !n.logged(fmt.Sprintf("another agent (pid %d on ", first.pid())) || !n.logged("has locked "+n.path("cdi", "accelmux-mock.lock")) {
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
	t.Parallel()
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
// another one is on standby.
const away = 5 * time.Second

// Whichever of two agents ends first, and however: capacity stays, and what containers have.
// If the one on standby ends, or the active one is told to stop, no device is unhealthy for a
// moment; if the active one is killed, none is for long. Nothing is left of the one that ended.
func TestWhicheverEndsFirst(t *testing.T) { // not parallel, as it bounds time
	for name, c := range map[string]struct {
		older bool // ends
		with  syscall.Signal
		// dips: the active agent is killed, so that its streams break.
		dips bool
	}{
		"the older one is told to": {true, syscall.SIGTERM, false},
		"the older one is killed":  {true, syscall.SIGKILL, true},
		"the newer one is told to": {false, syscall.SIGTERM, false},
		"the newer one is killed":  {false, syscall.SIGKILL, false},
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
			newer.wantRole(status.RoleStandby)
			older.wantRole(status.RoleActive)
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
			if text, err := os.ReadFile(n.path("state", "lock")); err != nil || !strings.Contains(string(text), fmt.Sprintf(`"pid":%d,`, stays.pid())) {
				t.Errorf("the state directory is held by %q, %v", text, err)
			}
		})
	}
}
