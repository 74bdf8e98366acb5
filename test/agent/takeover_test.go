package agent

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/test/patience"
)

// peer is one of several agents with the state directory of a node.
type peer struct {
	*node
	client *status.Client
	// stop tells the agent to stop; end waits until it has ended, too.
	stop, end func()
}

// startPeer starts an agent with --take-over and a run directory of its own.
func (n *node) startPeer(name string, edit ...func(*agent.Options)) *peer {
	n.Helper()
	options := n.options()
	options.TakeOver, options.RunDir = true, n.path(name)
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
	return &peer{node: n, client: status.NewClient(options.RunDir), stop: cancel, end: end}
}

// report returns the agent's report; an empty one while it does not answer.
func (p *peer) report() status.Report {
	report, err := p.client.Report(p.Context())
	if err != nil {
		return status.Report{}
	}
	return report
}

// wantRole waits until the agent has a role, and is ready.
func (p *peer) wantRole(role status.Role) {
	p.Helper()
	p.eventually("the agent is "+string(role), func() bool {
		report := p.report()
		return report.Role == role && len(report.NotReady) == 0
	})
}

// wantHolder waits until the agent reports that the pod has the device.
func (p *peer) wantHolder(id, pod string) {
	p.Helper()
	p.eventually("the agent knows that "+pod+" has "+id, func() bool {
		devices, err := p.client.Devices(p.Context())
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

// A newer agent waits on standby until the older one is told to stop, as in an upgrade and
// in a rollback: no healthy unit is missing at any moment, a pod keeps its device, and the
// newer agent knows which pod has it.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.startKubelet()
	n.configure(oneBackend)
	older := n.startPeer("first")
	n.wantCounts(gpu, 4, 4)
	older.wantRole(status.RoleActive)
	held, err := n.kubelet.Allocate(t.Context(), "pod", "main", gpu, 1)
	if err != nil {
		t.Fatal(err)
	}
	n.mark(gpu)
	for _, name := range []string{"second", "third"} {
		socket := n.kubelet.State().Resources[gpu].Socket
		newer := n.startPeer(name)
		newer.wantRole(status.RoleStandby)
		older.wantRole(status.RoleActive)
		if now := n.kubelet.State().Resources[gpu].Socket; now != socket {
			t.Errorf("kubelet is connected to %s while the older agent serves, want %s", now, socket)
		}
		older.end()
		newer.wantRole(status.RoleActive)
		newer.wantHolder(held.Devices[0], "pod")
		if _, err := n.kubelet.StartContainer(t.Context(), "pod", "main"); err != nil {
			t.Errorf("the pod's container does not start again: %v", err)
		}
		older = newer
	}
	if _, err := n.kubelet.Allocate(t.Context(), "other", "main", gpu, 3); err != nil {
		t.Errorf("the other devices cannot be allocated: %v", err)
	}
	n.wantCounts(gpu, 4, 4)
	n.wantNoDip(gpu, 4)
}

// withoutPrograms has the agent find no backends, until the program is linked.
func (n *node) withoutPrograms() (edit func(*agent.Options), link func()) {
	n.Helper()
	dir := n.path("programs")
	if err := os.Mkdir(dir, 0o755); err != nil {
		n.Fatal(err)
	}
	link = func() {
		const program = "accelmux-backend-mock"
		if err := os.Symlink(filepath.Join(built.Dir(n.T), program), filepath.Join(dir, program)); err != nil {
			n.Fatal(err)
		}
	}
	return func(o *agent.Options) { o.BackendDir = dir }, link
}

// wantUnready waits until the agent on standby is not ready because of backend mock.
func (p *peer) wantUnready() {
	p.Helper()
	p.eventually("the agent on standby waits for backend mock", func() bool {
		report := p.report()
		return report.Role == status.RoleStandby && len(report.NotReady) == 1 && strings.Contains(report.NotReady[0], "mock")
	})
}

// A newer agent whose backend does not work is not ready, so that a rollout stops, and
// changes nothing of what the older one serves.
func TestBrokenAgentOnStandby(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.startKubelet()
	n.configure(oneBackend)
	older := n.startPeer("older")
	n.wantCounts(gpu, 4, 4)
	older.wantRole(status.RoleActive)
	n.mark(gpu)
	edit, _ := n.withoutPrograms()
	newer := n.startPeer("newer", edit)
	newer.wantUnready()
	newer.end()
	older.wantRole(status.RoleActive)
	n.wantCounts(gpu, 4, 4)
	n.wantNoDip(gpu, 4)
}

// An older agent that is told to stop before the backends of the newer one work answers
// kubelet until they do.
func TestTakeOverBeforeTheBackendsWork(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.startKubelet()
	n.configure(oneBackend)
	older := n.startPeer("older")
	n.wantCounts(gpu, 4, 4)
	older.wantRole(status.RoleActive)
	n.mark(gpu)
	edit, link := n.withoutPrograms()
	newer := n.startPeer("newer", edit)
	newer.wantUnready()
	older.stop()
	n.eventually("the older agent ends, the newer one serves", func() bool {
		return older.report().Role == status.RoleEnding && newer.report().Role == status.RoleActive
	})
	held, err := n.kubelet.Allocate(t.Context(), "pod", "main", gpu, 1)
	if err != nil {
		t.Fatalf("the older agent does not answer kubelet: %v", err)
	}
	link()
	newer.wantRole(status.RoleActive)
	older.end()
	newer.wantHolder(held.Devices[0], "pod")
	n.wantCounts(gpu, 4, 4)
	n.wantNoDip(gpu, 4)
}

// A preparation in progress delays the takeover, and is not cut off.
func TestTakeOverWaitsForPrepare(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.startKubelet()
	n.configure(strings.Replace(oneBackend, "count: 4", "count: 4, hooks: [prepare], prepare: {delay: 3s}", 1))
	older := n.startPeer("older")
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
	newer := n.startPeer("newer")
	newer.wantRole(status.RoleStandby)
	older.end()
	newer.wantRole(status.RoleActive)
	if err := <-started; err != nil {
		t.Errorf("the container did not start: %v", err)
	}
	n.wantNoDip(gpu, 4)
}

// A change of the configuration while an agent is on standby is not lost.
func TestConfigurationChangesOnStandby(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.startKubelet()
	n.configure(oneBackend)
	older := n.startPeer("older")
	n.wantCounts(gpu, 4, 4)
	newer := n.startPeer("newer")
	newer.wantRole(status.RoleStandby)
	n.configure(strings.Replace(oneBackend, "count: 4", "count: 5", 1))
	n.wantCounts(gpu, 5, 5)
	n.eventually("the newer agent has five devices", func() bool {
		report := newer.report()
		return report.Role == status.RoleStandby && len(report.Backends) == 1 && report.Backends[0].Devices == 5
	})
	n.mark(gpu)
	older.end()
	newer.wantRole(status.RoleActive)
	n.wantCounts(gpu, 5, 5)
	n.wantNoDip(gpu, 5)
}
