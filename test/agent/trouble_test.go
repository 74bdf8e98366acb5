package agent

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
	"github.com/accelmux/accelmux/test/patience"
)

// withNeighbour is a backend without a program beside one that runs.
const withNeighbour = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - {name: bad}
      - {name: mock, settings: {count: 2}}
    resources:
      - {name: example.com/gpu, backend: mock}
      - {name: example.com/bad, backend: bad}
`

// programs is a backend directory with the mock backend alone.
func (n *node) programs() string {
	n.Helper()
	dir := n.path("backends")
	if err := os.Mkdir(dir, 0o755); err != nil {
		n.Fatal(err)
	}
	mock, err := os.ReadFile(filepath.Join(built.Dir(n.T), "accelmux-backend-mock"))
	if err != nil {
		n.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "accelmux-backend-mock"), mock, 0o755); err != nil {
		n.Fatal(err)
	}
	return dir
}

// A backend whose program is missing is left out, status has it, the others go on, and it runs
// as soon as the program is there.
func TestMissingProgramArrives(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.startKubelet()
	n.configure(strings.Replace(withNeighbour, "{name: bad}", "{name: bad, allow: {declared: accept}}", 1))
	options := n.options()
	options.BackendDir = n.programs()
	options.Timing.Supervisor.ProgramPoll = 50 * time.Millisecond
	n.startAgentWith(options)
	n.wantCounts(gpu, 2, 2)
	n.wantProblem("bad", "accelmux-backend-bad", "does not exist")
	mock := filepath.Join(options.BackendDir, "accelmux-backend-mock")
	if err := os.Link(mock, filepath.Join(options.BackendDir, "accelmux-backend-bad")); err != nil {
		t.Fatal(err)
	}
	n.wantCounts("example.com/bad", 1, 1)
	n.eventually("no problem is left", func() bool { return n.problems() == "" })
}

// A kubelet that is absent for long is a sentence in status, an Event on the Node
// and a metric, which say whether the directory or the socket is missing; and all
// three say when it came.
func TestKubeletMissing(t *testing.T) {
	t.Parallel()
	server := clustertest.New(t, "node-1", map[string]string{})
	n := newNode(t)
	n.configure(oneBackend)
	options := n.inCluster(server)
	withMetrics(&options)
	options.Timing.Plugin.Patience = 100 * time.Millisecond
	options.Timing.Plugin.Poll = 50 * time.Millisecond
	n.startAgentWith(options)
	const says = "device-plugins does not exist: is it mounted here, and is --kubelet-dir right?"
	n.wantProblem(says)
	n.wantEvent(server, events.KubeletMissing, says)
	n.wantMetrics("accelmux_kubelet_missing 1", "accelmux_ready 0")
	n.startKubelet()
	n.wantCounts(gpu, 4, 4)
	n.wantEvent(server, events.KubeletFound, "kubelet is there")
	n.wantMetrics("accelmux_kubelet_missing 0", "accelmux_ready 1", "accelmux_problems 0")
}

// A second agent with the same state directory is refused with a sentence, and
// the first one is not disturbed.
func TestSecondStartIsRefused(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend)
	n.mark(gpu)
	if _, err := agent.Open(n.options()); err == nil || !strings.Contains(err.Error(), "another agent") {
		t.Errorf("a second start gives %v, want a refusal", err)
	}
	n.wantNoDip(gpu, 4)
}

// A configuration that is wrong at the start ends the start with its place.
func TestBadConfigurationAtStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, new, want string }{
		"unknown field":       {"heartbeat", "heartbeet", "node.yaml:9: profiles[0].backends[0].heartbeet"},
		"reserved domain":     {"example.com/gpu", "kubernetes.io/gpu", "node.yaml:12: profiles[0].resources[0].name"},
		"name too long":       {"example.com/gpu", "example.com/" + strings.Repeat("x", 64), "node.yaml:12: profiles[0].resources[0].name"},
		"duplicate resource":  {"- {name: example.com/gpu}", "- {name: example.com/gpu}\n      - {name: example.com/gpu}", "node.yaml:13: profiles[0].resources[1].name"},
		"selector":            {"{name: example.com/gpu}", "{name: example.com/gpu, selector: 'device.nothing =='}", "node.yaml:12: profiles[0].resources[0].selector"},
		"profile not in file": {"name: default", "name: third\n    backends: [{name: mock}]\n  - name: second", "third, second"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.configure(strings.Replace(oneBackend, c.old, c.new, 1))
			if _, err := agent.Open(n.options()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is\n%v\nwant it to hold %q", err, c.want)
			}
			if _, err := os.Stat(n.path("state")); err == nil {
				t.Error("a refused start left a state directory")
			}
		})
	}
}

// An agent that stands still while it ends, as a paused virtual machine does, for longer
// than it gives a stopped backend, ends well when it goes on.
func TestStandsStillWhileItEnds(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.startKubelet()
	n.configure(oneBackend)
	p := n.startProgram("run")
	n.wantCounts(gpu, 4, 4)
	backend := p.backend("mock").PID
	if err := unix.Kill(backend, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.eventually("the backend has stopped", func() bool { return stopped(backend) })
	if err := p.command.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	n.eventually("it has hung up", func() bool { return n.kubelet.State().Resources[gpu].Connections == 0 })
	p.freeze()
	<-time.After(6 * time.Second)
	if p.over() {
		t.Fatal("the agent has not waited for the stopped backend")
	}
	p.signal(unix.SIGCONT)
	if p.err != nil {
		t.Errorf("exit: %v", p.err)
	}
	if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(backend))); err == nil {
		t.Errorf("backend process %d is left", backend)
	}
}

// The real program ends by SIGTERM and leaves nothing: no process, no
// socket, no spec of an unused device, no temporary file. What a pod holds stays
// defined.
func TestSIGTERMLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, held := range map[string]bool{"nothing held": false, "a device held": true} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.startKubelet()
			n.configure(oneBackend)
			p := n.startProgram("run")
			n.wantCounts(gpu, 4, 4)
			if held {
				if _, err := n.kubelet.Allocate(t.Context(), "pod", "main", gpu, 1); err != nil {
					t.Fatal(err)
				}
			}
			backends := children(t, p.pid())
			if len(backends) == 0 {
				t.Fatal("the agent has no backend process")
			}
			began := time.Now()
			if p.signal(unix.SIGTERM); p.err != nil {
				t.Errorf("exit: %v", p.err)
			}
			if took := time.Since(began); took > patience.Long/2 {
				t.Errorf("ended after %v", took)
			}
			for _, pid := range backends {
				if _, err := os.Stat(filepath.Join("/proc", pid)); err == nil {
					t.Errorf("backend process %s is left", pid)
				}
			}
			if held {
				specs, err := filepath.Glob(n.path("cdi", "*.json"))
				if err != nil || len(specs) != 1 {
					t.Errorf("CDI specs %v %v, want the one of the held device", specs, err)
				}
				return
			}
			n.wantNothingLeft()
		})
	}
}

// children are the process IDs of a process's children (proc(5)).
func children(t *testing.T, pid int) []string {
	t.Helper()
	lists, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "children"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread is gone
		}
		all = append(all, strings.Fields(string(text))...)
	}
	return all
}
