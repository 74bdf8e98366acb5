package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/test/patience"
)

// turn is one of several agents that take turns on a node.
type turn struct {
	*node
	client *status.Client
	end    func()
}

// startTurn starts an agent that takes over, with a run directory of its own.
func (n *node) startTurn(name string, edit ...func(*agent.Options)) *turn {
	n.Helper()
	options := n.options()
	options.TakeOver, options.RunDir = true, n.path(name)
	options.Timing.SuccessorWait = time.Millisecond
	for _, e := range edit {
		e(&options)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- agent.Run(ctx, options) }()
	ended := false
	end := func() {
		cancel()
		if ended {
			return
		}
		ended = true
		select {
		case err := <-done:
			if err != nil {
				n.Errorf("agent %s ended with: %v", name, err)
			}
		case <-time.After(patience.Long):
			n.Errorf("agent %s did not end", name)
		}
	}
	n.Cleanup(end)
	return &turn{node: n, client: status.NewClient(options.RunDir), end: end}
}

// state is what the agent says of a backend; nothing while it does not answer.
func (t *turn) state(backend string) (state status.Backend) {
	report, err := t.client.Report(t.Context())
	if err != nil {
		return status.Backend{}
	}
	for _, b := range report.Backends {
		if b.Name == backend {
			state = b
		}
	}
	return state
}

// wantRole waits until the agent has a role, and is ready if it is the active one alone.
func (t *turn) wantRole(role status.Role) {
	t.Helper()
	t.eventually("the agent is "+string(role), func() bool {
		report, err := t.client.Report(t.Context())
		return err == nil && report.Role == role && (len(report.NotReady) == 0) == (role != status.RoleSuccessor)
	})
}

// A newer agent takes over from a running one: no healthy unit is missing at any
// moment, a pod keeps its device, the newer one knows who holds it, and the older
// one stands by until it is told to end.
func TestTakeOver(t *testing.T) {
	n := newNode(t)
	n.startKubelet()
	n.configure(oneBackend)
	older := n.startTurn("older")
	n.wantCounts(gpu, 4, 4)
	older.wantRole(status.RoleActive)
	held, err := n.kubelet.Allocate(t.Context(), "pod", "main", gpu, 1)
	if err != nil {
		t.Fatal(err)
	}
	n.mark(gpu)

	newer := n.startTurn("newer")
	newer.wantRole(status.RoleActive)
	older.wantRole(status.RoleStandby)
	n.wantCounts(gpu, 4, 4)
	n.wantHolder(newer, held.Devices[0], "pod")
	if _, err := n.kubelet.StartContainer(t.Context(), "pod", "main"); err != nil {
		t.Errorf("the pod's container does not start again: %v", err)
	}
	older.end()
	if _, err := n.kubelet.Allocate(t.Context(), "other", "main", gpu, 3); err != nil {
		t.Errorf("the other devices are not to be had: %v", err)
	}
	n.wantNoDip(gpu, 4)
}

// wantHolder waits until the agent says that the pod holds the device.
func (n *node) wantHolder(of *turn, id, pod string) {
	n.Helper()
	n.eventually("the agent knows that "+pod+" holds "+id, func() bool {
		devices, err := of.client.Devices(n.Context())
		if err != nil {
			return false
		}
		for _, d := range devices {
			if d.ID == id {
				return len(d.Holders) == 1 && d.Holders[0].Pod == pod
			}
		}
		return false
	})
}

// The agent that stands by takes over again when the newer one is told to end, as
// in an upgrade that is rolled back: again nothing is missing.
func TestTakeOverAndBack(t *testing.T) {
	n := newNode(t)
	n.startKubelet()
	n.configure(oneBackend)
	older := n.startTurn("older")
	n.wantCounts(gpu, 4, 4)
	n.mark(gpu)
	for range 3 {
		newer := n.startTurn("newer")
		newer.wantRole(status.RoleActive)
		older.wantRole(status.RoleStandby)
		newer.end()
		older.wantRole(status.RoleActive)
		n.wantCounts(gpu, 4, 4)
	}
	n.wantNoDip(gpu, 4)
}

// Of three agents the newest takes over once, and stays: the oldest, which waited for
// the one in between, does not take over from it in turn.
func TestTakeOverWithAnotherOnStandby(t *testing.T) {
	n := newNode(t)
	n.startKubelet()
	n.configure(oneBackend)
	oldest := n.startTurn("oldest")
	n.wantCounts(gpu, 4, 4)
	oldest.wantRole(status.RoleActive)
	n.mark(gpu)
	older := n.startTurn("older")
	older.wantRole(status.RoleActive)
	oldest.wantRole(status.RoleStandby)
	newer := n.startTurn("newer")
	n.eventually("both stand by", func() bool {
		return strings.Count(n.log.String(), "this one stands by") >= 2 && oldest.role() == status.RoleStandby && older.role() == status.RoleStandby
	})
	newer.wantRole(status.RoleActive)
	if got := strings.Count(n.log.String(), "another agent takes over"); got != 2 {
		t.Errorf("there were %d take-overs, want 2", got)
	}
	newer.end()
	n.eventually("one of the others is active", func() bool {
		return oldest.role() == status.RoleActive && older.role() == status.RoleStandby ||
			oldest.role() == status.RoleStandby && older.role() == status.RoleActive
	})
	n.wantCounts(gpu, 4, 4)
	n.wantNoDip(gpu, 4)
}

// role is what the agent says that it is; "" while it does not answer.
func (t *turn) role() status.Role {
	report, err := t.client.Report(t.Context())
	if err != nil {
		return ""
	}
	return report.Role
}

// A successor whose backend does not work does not take over from an agent where
// it does: it is not ready, says why, and goes without a trace.
func TestBrokenSuccessorStaysOut(t *testing.T) {
	n := newNode(t)
	n.startKubelet()
	n.configure(oneBackend)
	older := n.startTurn("older")
	n.wantCounts(gpu, 4, 4)
	older.wantRole(status.RoleActive)
	n.mark(gpu)

	empty := n.path("no-programs")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	newer := n.startTurn("newer", func(o *agent.Options) { o.BackendDir = empty })
	n.eventually("the older agent says why it stays", func() bool { return n.logged("this one stays") })
	n.eventually("the newer agent says that backend mock holds it up, and that another one is active", func() bool {
		report, err := newer.client.Report(t.Context())
		return err == nil && len(report.Others) == 1 && report.Others[0].Role == status.RoleActive && report.Role == status.RoleSuccessor && strings.Contains(strings.Join(report.NotReady, "; "), "mock")
	})
	older.wantRole(status.RoleActive)
	newer.end()
	n.wantCounts(gpu, 4, 4)
	n.wantNoDip(gpu, 4)
	older.wantRole(status.RoleActive)
}

// Nor does such a successor take over while the backend of the active agent is down
// and its devices are held over: one that works does.
func TestBrokenSuccessorStaysOutOfAHoldover(t *testing.T) {
	n := newNode(t)
	n.startKubelet()
	n.configure(oneBackend)
	own, empty := n.path("own-programs"), n.path("no-programs")
	for _, dir := range []string{own, empty} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(own, "accelmux-backend-mock")
	if err := os.Symlink(filepath.Join(built.Dir(t), "accelmux-backend-mock"), program); err != nil {
		t.Fatal(err)
	}
	older := n.startTurn("older", func(o *agent.Options) { o.BackendDir = own })
	n.wantCounts(gpu, 4, 4)
	n.mark(gpu)
	older.wantRole(status.RoleActive)
	if err := errors.Join(os.Remove(program), unix.Kill(older.state("mock").PID, unix.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	n.eventually("the backend is down for good", func() bool { return older.state("mock").State == "unavailable" })

	newer := n.startTurn("newer", func(o *agent.Options) { o.BackendDir = empty })
	n.eventually("the older agent says why it stays", func() bool { return n.logged("this one stays") })
	older.wantRole(status.RoleActive)
	newer.end()
	n.startTurn("good")
	older.wantRole(status.RoleStandby)
	n.wantCounts(gpu, 4, 4)
	n.wantNoDip(gpu, 4)
}

// A successor whose backend works as little as that of the active agent takes
// over all the same: an upgrade must be able to mend it.
func TestTakeOverWithTheSameTrouble(t *testing.T) {
	n := newNode(t)
	n.startKubelet()
	n.configure(withNeighbour)
	broken := func(o *agent.Options) { o.Timing.Supervisor.Start = time.Second }
	older := n.startTurn("older", broken)
	n.wantCounts(gpu, 2, 2)
	n.mark(gpu)
	n.startTurn("newer", broken)
	older.wantRole(status.RoleStandby)
	n.wantCounts(gpu, 2, 2)
	n.wantNoDip(gpu, 2)
}

// A preparation that is going on holds the successor up, and is not cut off.
func TestTakeOverWaitsForPrepare(t *testing.T) {
	n := newNode(t)
	n.startKubelet()
	n.configure(strings.Replace(oneBackend, "count: 4", "count: 4, hooks: [prepare], prepare: {delay: 3s}", 1))
	older := n.startTurn("older")
	n.wantCounts(gpu, 4, 4)
	if _, err := n.kubelet.Allocate(t.Context(), "pod", "main", gpu, 1); err != nil {
		t.Fatal(err)
	}
	n.mark(gpu)
	started := make(chan error, 1)
	go func() {
		_, err := n.kubelet.StartContainer(t.Context(), "pod", "main")
		started <- err
	}()
	newer := n.startTurn("newer")
	newer.wantRole(status.RoleActive)
	older.wantRole(status.RoleStandby)
	if err := <-started; err != nil {
		t.Errorf("the container did not start: %v", err)
	}
	n.wantNoDip(gpu, 4)
}

// A change of the configuration while a successor warms up is not lost.
func TestConfigurationChangesDuringTakeOver(t *testing.T) {
	n := newNode(t)
	n.startKubelet()
	n.configure(oneBackend)
	older := n.startTurn("older")
	n.wantCounts(gpu, 4, 4)
	empty := n.path("programs")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	newer := n.startTurn("newer", func(o *agent.Options) { o.BackendDir = empty })
	newer.wantRole(status.RoleSuccessor)
	n.configure(strings.Replace(oneBackend, "count: 4", "count: 5", 1))
	n.wantCounts(gpu, 5, 5)
	if err := os.Symlink(filepath.Join(built.Dir(t), "accelmux-backend-mock"), filepath.Join(empty, "accelmux-backend-mock")); err != nil {
		t.Fatal(err)
	}
	n.mark(gpu)
	newer.wantRole(status.RoleActive)
	older.wantRole(status.RoleStandby)
	n.wantCounts(gpu, 5, 5)
	n.wantNoDip(gpu, 5)
}

// An agent that is told to stop waits a moment for one that has yet to come, as
// when the pod of a DaemonSet is deleted: then nothing is missing either.
func TestSuccessorComesAfterTheEndWasAskedFor(t *testing.T) {
	n := newNode(t)
	n.startKubelet()
	n.configure(oneBackend)
	older := n.startTurn("older", func(o *agent.Options) { o.Timing.SuccessorWait = patience.Long / 2 })
	n.wantCounts(gpu, 4, 4)
	older.wantRole(status.RoleActive)
	n.mark(gpu)
	ended := make(chan struct{})
	go func() {
		older.end()
		close(ended)
	}()
	n.eventually("the older agent was told", func() bool { return n.logged("accelmux stops") })
	newer := n.startTurn("newer")
	<-ended
	newer.wantRole(status.RoleActive)
	n.wantCounts(gpu, 4, 4)
	n.wantNoDip(gpu, 4)
}
