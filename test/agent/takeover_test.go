package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/status/listing"
	"github.com/accelmux/accelmux/test/programs"
)

// wantRole waits until the agent has a role, and is ready.
func (p *program) wantRole(role status.Role) {
	p.Helper()
	p.eventually(fmt.Sprintf("%s is %s", filepath.Base(p.runDir), role), func() bool {
		report, err := p.client.Report(p.Context())
		return err == nil && report.Role == role && len(report.NotReady) == 0
	})
}

// wantHolder waits until the agent reports that the pod has the device.
func (p *program) wantHolder(id, pod string) {
	p.Helper()
	p.eventually("the agent knows that "+pod+" has "+id, func() bool {
		devices, err := p.client.Devices(p.Context())
		return err == nil && slices.ContainsFunc(devices, func(d listing.Device) bool {
			return d.ID == id && len(d.Holders) == 1 && d.Holders[0].Pod == pod
		})
	})
}

// end tells the agent to end, which it must do well.
func (p *program) end() {
	p.Helper()
	if p.signal(syscall.SIGTERM); p.over() && p.err != nil {
		p.Errorf("the agent at %s ended with: %v", p.runDir, p.err)
	}
}

// A newer agent whose backends do not work is not ready, so that a rollout stops, and changes
// nothing of what the older one serves. An older one that is told to stop then answers kubelet
// until they work.
func TestTakeOverBeforeTheBackendsWork(t *testing.T) {
	t.Parallel()
	n, older := startFirst(t, oneBackend, "--take-over")
	n.mark(gpu)
	dir := n.path("programs")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	start := func(name string) *program {
		newer := n.startProgram(name, "--take-over", "--backend-dir", dir)
		newer.eventually("the agent on standby waits for backend mock", func() bool {
			report := newer.report()
			return report.Role == status.RoleStandby && len(report.NotReady) == 1 && strings.Contains(report.NotReady[0], "mock")
		})
		return newer
	}
	start("broken").end()
	older.wantRole(status.RoleActive)
	n.wantCounts(gpu, 4, 4)

	newer := start("newer")
	n.kill(older.pid(), syscall.SIGTERM)
	n.eventually("the older agent ends, the newer one serves", func() bool {
		return older.report().Role == status.RoleEnding && newer.report().Role == status.RoleActive
	})
	held := n.allocate("pod", gpu, 1)
	const program = "accelmux-backend-mock"
	from, to := filepath.Join(built.Dir(t), program), filepath.Join(dir, program)
	programs.CopyManifest(t, from, to)
	if err := os.Symlink(from, to); err != nil {
		t.Fatal(err)
	}
	newer.wantRole(status.RoleActive)
	older.eventually("the older agent has ended", older.over)
	newer.wantHolder(held[0], "pod")
	n.wantCounts(gpu, 4, 4)
	n.wantNoDip(gpu, 4)
}

// startFirst is a node with one agent whose four devices kubelet has.
func startFirst(t *testing.T, config string, more ...string) (*node, *program) {
	t.Helper()
	n := newNode(t)
	n.startKubelet()
	n.configure(config)
	first := n.startProgram("first", more...)
	first.wantRole(status.RoleActive)
	n.wantCounts(gpu, 4, 4) // kubelet may have the list a moment after the agent has sent it
	return n, first
}

func (n *node) specFile() os.FileInfo {
	n.Helper()
	info, err := os.Stat(n.path("cdi", "accelmux-mock-gpu.json"))
	if err != nil {
		n.Fatal(err)
	}
	return info
}

// A second agent that is started by mistake ends, and says why, whether it has the state directory
// of the first, or its own one and the same CDI directory: it touches nothing of the first's. When
// the first is gone, another one may be what it was.
func TestSecondAgentByMistake(t *testing.T) {
	t.Parallel()
	n, first := startFirst(t, oneBackend)
	n.allocate("pod", gpu, 1)
	before := n.definitions("mock", "gpu")
	n.mark(gpu)
	another := []string{"--state-dir", n.path("another-state")}
	wantRefused := func(says string, more ...string) {
		t.Helper()
		second := n.startProgram("second", more...)
		n.eventually("the second agent ends", second.over)
		if second.command.ProcessState.Success() || !n.logged(fmt.Sprintf("another agent (pid %d on ", first.pid())) || !n.logged(says) {
			t.Errorf("the second agent ended with %v", second.command.ProcessState)
		}
	}
	locked := "has locked " + n.path("cdi", "accelmux-mock.lock")
	wantRefused("stop it, or wait for its end with --take-over and a --run-dir of its own")
	wantRefused(locked, another...)
	wantRefused(locked, append(another, "--take-over")...)
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
	wantRefused(locked, another...)
	first.signal(syscall.SIGKILL)
	n.startProgram("second", another...).wantRole(status.RoleActive)
}

// When the active agent is killed, the one on standby serves, capacity and what containers have
// stay, and nothing is left of the one that was killed.
func TestActiveAgentKilled(t *testing.T) {
	t.Parallel()
	h := startPair(t, oneBackend, "never")
	held := h.allocate("before", gpu, 2)
	spec := h.specFile()
	h.older.signal(syscall.SIGKILL)
	h.newer.wantRole(status.RoleActive)
	h.wantCounts(gpu, 4, 4)
	h.eventually("one socket is left", func() bool { return len(h.sockets()) == 1 })
	h.seen.mu.Lock()
	capacity, _, _ := h.seen.dips(4)
	h.seen.mu.Unlock()
	if capacity < 4 {
		t.Errorf("capacity dipped to %d", capacity)
	}
	if other := h.allocate("after", gpu, 2); slices.ContainsFunc(other, func(id string) bool { return slices.Contains(held, id) }) {
		t.Errorf("two containers have %v and %v", held, other)
	}
	if after := h.specFile(); !os.SameFile(spec, after) || !spec.ModTime().Equal(after.ModTime()) {
		t.Error("the CDI spec was removed or written again, though no definition has changed")
	}
}
