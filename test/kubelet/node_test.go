package kubelet

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/accelmux/accelmux/test/kubelet/agent"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

const (
	// gpu is the resource that most tests ask for.
	gpu = "example.com/gpu"
	// patience bounds every wait of a test. It is many times what a busy machine takes:
	// nobody waits for it but a test that fails.
	patience = 2 * time.Minute
)

// node is one node: kubelet, the agent, and the directories of both.
type node struct {
	*testing.T
	kubelet *realkubelet.Kubelet
	agent   *agent.Agent
	// bin has the accelmux programs, and log is what kubelets log.
	bin string
	log sink
	// scenes counts those that were waited for.
	scenes int
}

// newNode prepares a node with two NUMA nodes; nothing runs yet. When the test ends the agent is
// told to stop, and must end well and in time.
func newNode(t *testing.T, options realkubelet.Options) *node {
	t.Helper()
	bin, program := requirePrograms(t)
	root, err := os.MkdirTemp("", "n")
	if err != nil {
		t.Fatal(err)
	}
	a, err := agent.New(bin, root)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{T: t, agent: a, bin: bin}
	options.Program, options.Log = program, &n.log
	n.kubelet = realkubelet.New(a.KubeletDir(), options)
	t.Cleanup(func() { n.end(root) })
	if err := os.Mkdir(filepath.Dir(n.scenarioFile()), 0o700); err != nil {
		t.Fatal(err)
	}
	return n
}

// start is newNode with kubelet and the agent running and the resource gpu
// registered with that many healthy units. edit changes the mock's usual
// configuration.
func start(t *testing.T, m mock, units int64, edit ...func(*agent.Config)) *node {
	t.Helper()
	n := newNode(t, realkubelet.Options{})
	n.startKubelet()
	config := m.config(n)
	for _, e := range edit {
		e(&config)
	}
	n.configure(config)
	n.startAgent()
	n.wantCounts(gpu, units, units)
	return n
}

func (n *node) startKubelet() {
	n.Helper()
	if err := n.kubelet.Start(); err != nil {
		n.Fatal(err)
	}
}

func (n *node) startAgent() {
	n.Helper()
	if err := n.agent.Start(); err != nil {
		n.Fatal(err)
	}
}

func (n *node) configure(config agent.Config) {
	n.Helper()
	if err := n.agent.Write(config); err != nil {
		n.Fatal(err)
	}
}

// restartKubelet returns how long the resource took to be whole again, counted
// from when the new kubelet's socket was there.
func (n *node) restartKubelet(resource string, units int64) time.Duration {
	n.Helper()
	if err := n.kubelet.Restart(); err != nil {
		n.Fatal(err)
	}
	return n.wantCounts(resource, units, units)
}

// wantCounts waits until kubelet has these counts and returns how long it took.
func (n *node) wantCounts(resource string, capacity, allocatable int64) time.Duration {
	n.Helper()
	took, err := n.kubelet.WaitCounts(n.soon(), resource, capacity, allocatable)
	if err != nil {
		n.Fatal(err)
	}
	return took
}

// eventually waits until the condition holds; what says what did not happen.
func (n *node) eventually(what string, condition func() bool) time.Duration {
	n.Helper()
	took, err := realkubelet.Poll(n.soon(), condition)
	if err != nil {
		n.Fatalf("%s: not within %v", what, patience)
	}
	return took
}

// soon is a context that bounds one wait.
func (n *node) soon() context.Context {
	ctx, cancel := context.WithTimeout(n.Context(), patience)
	n.Cleanup(cancel)
	return ctx
}

// admit puts a pod with one container, c, on the node.
func (n *node) admit(name, resource string, amount int64) *v1.Pod {
	n.Helper()
	pod := realkubelet.NewPod(name, map[string]int64{resource: amount})
	if err := n.kubelet.Admit(n.soon(), pod); err != nil {
		n.Fatalf("admit %s with %d of %s: %v", name, amount, resource, err)
	}
	return pod
}

// held lists the IDs of the units that the pod's container has.
func (n *node) held(pod *v1.Pod, resource string) []string {
	var ids []string
	for _, d := range n.kubelet.Devices(pod, "c", resource) {
		ids = append(ids, d.ID)
	}
	return ids
}

// end stops everything, and shows the logs of a test that failed.
func (n *node) end(root string) {
	if n.agent.Running() {
		took, err := n.agent.Stop()
		if err != nil {
			n.Error(err)
		} else {
			n.Logf("the agent ended %v after SIGTERM", took.Round(time.Millisecond))
		}
	}
	if err := n.kubelet.Stop(); err != nil {
		n.Errorf("stop kubelet: %v", err)
	}
	if n.Failed() {
		n.Logf("the agent's log:\n%s", n.agent.Log())
		n.Logf("kubelet's log:\n%s", tail(n.log.text(), 20000))
	}
	if err := os.RemoveAll(root); err != nil {
		n.Error(err)
	}
}

// requirePrograms returns the directory of the accelmux programs, and the program manager. `make
// test-kubelet` builds both.
func requirePrograms(t *testing.T) (bin, kubelet string) {
	t.Helper()
	bin, kubelet = os.Getenv("ACCELMUX_BIN"), os.Getenv("KUBELET_PROGRAM")
	for _, path := range []string{filepath.Join(bin, "accelmux"), filepath.Join(bin, "accelmux-backend-nvidia"), kubelet} {
		if _, err := os.Stat(path); err != nil || !filepath.IsAbs(path) {
			t.Fatalf("ACCELMUX_BIN=%q and KUBELET_PROGRAM=%q must be absolute paths of the built programs: run `make test-kubelet`", bin, kubelet)
		}
	}
	return bin, kubelet
}

// sink is a log.
type sink struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *sink) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// tail is the end of a long text.
func tail(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return "...\n" + text[len(text)-n:]
}
