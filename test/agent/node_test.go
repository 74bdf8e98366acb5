package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"sigs.k8s.io/yaml"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/podresources"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/status/listing"
	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/test/patience"
	"github.com/accelmux/accelmux/test/programs"
)

const (
	// gpu is the resource of most tests, fpga that of twoBackends that nothing happens to.
	gpu  = "example.com/gpu"
	fpga = "example.com/fpga"

	firstBoot  = "11111111-1111-4111-8111-111111111111"
	secondBoot = "22222222-2222-4222-8222-222222222222"
)

// built are the programs: ours and the hostile backend.
var built = programs.Shared{Args: []string{"../../cmd/...", "../hostile/hostilebackend", "../hostile/intruderbackend"}}

func TestMain(m *testing.M) {
	if text := os.Getenv(orderEnv); text != "" {
		os.Exit(playAgent(text))
	}
	if text := os.Getenv(cageEnv); text != "" {
		os.Exit(playCage(text))
	}
	code := m.Run()
	err := built.Remove()
	if code == 0 {
		err = errors.Join(err, goleak.Find())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// node is one node in a temporary directory. Its methods fail the test.
type node struct {
	*testing.T
	dir     string
	kubelet *kubelettest.Kubelet
	agent   *agent.Agent
	stop    func()

	log lockedBuffer

	mu sync.Mutex
	// lowest is the least Allocatable seen since mark, by resource.
	lowest map[string]int
}

// lockedBuffer is what several goroutines may write to.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// newNode makes a node; nothing runs yet. At the end of the test all of it must
// go away in time.
func newNode(t *testing.T) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "a")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{T: t, dir: dir, lowest: map[string]int{}}
	n.kubelet = kubelettest.New(n.path("kubelet"), kubelettest.Options{OnEvent: n.observe})
	n.boot(firstBoot)
	t.Cleanup(func() {
		n.stopAgent()
		n.kubelet.Stop()
		if t.Failed() {
			t.Logf("the agent's log:\n%s", n.log.String())
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return n
}

// startNode is a node with everything running and the resource gpu healthy. edit
// changes the agent's usual options.
func startNode(t *testing.T, units int, config string, edit ...func(*agent.Options)) *node {
	t.Helper()
	n := newNode(t)
	n.startKubelet()
	n.configure(config)
	options := n.options()
	for _, e := range edit {
		e(&options)
	}
	n.startAgentWith(options)
	n.wantCounts(gpu, units, units)
	return n
}

// quickUsage lets the agent believe kubelet's list of pods at once.
func quickUsage(options *agent.Options) {
	options.Timing.Usage = podresources.Timing{
		Quiet: time.Millisecond, Grace: 10 * time.Millisecond, Settle: 10 * time.Millisecond, Confirm: 10 * time.Millisecond, Spacing: 10 * time.Millisecond,
		// Kubelet lists a pod a while after the agent has answered its Allocate.
		Unseen: 2 * time.Second,
	}
}

func (n *node) path(parts ...string) string {
	return filepath.Join(append([]string{n.dir}, parts...)...)
}

func (n *node) startKubelet() {
	n.Helper()
	if err := n.kubelet.Start(); err != nil {
		n.Fatal(err)
	}
}

func (n *node) restartKubelet() {
	n.Helper()
	if err := n.kubelet.Restart(); err != nil {
		n.Fatal(err)
	}
}

// configure writes the node configuration, as an editor does: by a rename.
// DIR in it stands for the node's directory.
func (n *node) configure(text string) {
	n.Helper()
	n.write("node.yaml", text)
}

// scenario replaces the file that the mock backend watches.
func (n *node) scenario(text string) {
	n.Helper()
	n.write("scenario.yaml", text)
}

func (n *node) write(name, text string) {
	n.Helper()
	text = strings.ReplaceAll(text, "DIR", n.dir)
	temporary := n.path("." + name)
	if err := errors.Join(os.WriteFile(temporary, []byte(text), 0o600), os.Rename(temporary, n.path(name))); err != nil {
		n.Fatal(err)
	}
}

// boot gives the node another boot ID, in a procfs of its own.
func (n *node) boot(id string) {
	n.Helper()
	random := n.path("proc", "sys", "kernel", "random")
	if err := errors.Join(os.MkdirAll(random, 0o755), os.WriteFile(filepath.Join(random, "boot_id"), []byte(id+"\n"), 0o644)); err != nil {
		n.Fatal(err)
	}
}

func (n *node) options() agent.Options {
	n.Helper()
	return n.optionsOf(built.Dir(n.T))
}

// optionsOf are the options with backends of that directory; it does without the test.
func (n *node) optionsOf(backends string) agent.Options {
	return agent.Options{
		ConfigPath: n.path("node.yaml"), NodeName: "node-1",
		Directories: agent.Directories{
			KubeletDir: n.path("kubelet"), CDIDir: n.path("cdi"), StateDir: n.path("state"), RunDir: n.path("run"), BackendDir: backends,
		},
		HostPaths: agent.HostPaths{Procfs: n.path("proc"), Sysfs: n.path("sys")},
		Log:       slog.New(slog.NewTextHandler(&n.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Timing: agent.Timing{
			// With Kill: a disk that stands still is no backend that does not die.
			Stop:         patience.Long / 2,
			ResetBackoff: 100 * time.Millisecond,
			UsagePoll:    100 * time.Millisecond,
			Usage:        podresources.Timing{Quiet: time.Millisecond},
			Supervisor: supervisor.Timing{
				// With four tests on half a core a backend needs 3 s to start, and these are its steps.
				Timing:    plug.Timing{Start: patience.Long, Health: patience.Long, Kill: patience.Long / 3},
				Configure: patience.Long, FirstInventory: patience.Long,
				Backoff: 100 * time.Millisecond, BackoffLimit: time.Second,
			},
		},
	}
}

func (n *node) startAgent() {
	n.Helper()
	n.startAgentWith(n.options())
}

func (n *node) startAgentWith(options agent.Options) {
	n.Helper()
	a, err := agent.Open(options)
	if err != nil {
		n.Fatal(err)
	}
	n.agent = a
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	n.stop = func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				n.Errorf("the agent ended with: %v", err)
			}
		case <-time.After(patience.Long):
			n.Fatalf("the agent did not end within %v", patience.Long)
		}
	}
}

// stopAgent does nothing if the agent does not run.
func (n *node) stopAgent() {
	n.Helper()
	if n.stop != nil {
		n.stop()
		n.stop = nil
	}
}

// logged reports whether the agent has logged the text.
func (n *node) logged(text string) bool { return strings.Contains(n.log.String(), text) }

func (n *node) observe(e kubelettest.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if lowest, ok := n.lowest[e.Resource]; ok && e.Allocatable < lowest {
		n.lowest[e.Resource] = e.Allocatable
	}
}

// mark begins to watch how low the resource's count gets.
func (n *node) mark(resource string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lowest[resource] = n.kubelet.Allocatable(resource)
}

// wantNoDip fails if the count was below want at any moment since mark.
func (n *node) wantNoDip(resource string, want int) {
	n.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if lowest := n.lowest[resource]; lowest < want {
		n.Errorf("%s dipped to %d healthy units, want at least %d all the time", resource, lowest, want)
	}
}

func (n *node) soon() context.Context {
	ctx, cancel := context.WithTimeout(n.Context(), patience.Long)
	n.Cleanup(cancel)
	return ctx
}

// wantCounts waits until kubelet has these counts from a live connection.
func (n *node) wantCounts(resource string, capacity, allocatable int) {
	n.Helper()
	err := n.kubelet.WaitFor(n.soon(), func(s kubelettest.State) bool {
		r := s.Resources[resource]
		return r.Connections > 0 && r.Capacity == capacity && r.Allocatable == allocatable
	})
	if err != nil {
		n.Fatalf("%s: want %d units, %d of them healthy: %v\n%s", resource, capacity, allocatable, err, n.problems())
	}
}

// eventually waits until the condition holds; what says what did not happen.
func (n *node) eventually(what string, condition func() bool) {
	n.Helper()
	if !patience.Within(patience.Long, condition) {
		n.Fatalf("%s: not within %v\n%s", what, patience.Long, n.problems())
	}
}

// wantProblem waits until status says a sentence with these parts.
func (n *node) wantProblem(parts ...string) {
	n.Helper()
	n.eventually(fmt.Sprintf("a problem with %q", parts), func() bool {
		return slices.ContainsFunc(strings.Split(n.problems(), "\n"), func(line string) bool { return hasAll(line, parts) })
	})
}

// problems are those of status, a line each; none without an agent of the node's own.
func (n *node) problems() string {
	if n.agent == nil {
		return ""
	}
	var lines []string
	for _, p := range n.agent.Report().Problems {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

func (n *node) backend(name string) status.Backend {
	for _, b := range n.agent.Report().Backends {
		if b.Name == name {
			return b
		}
	}
	return status.Backend{}
}

func (n *node) device(id string) listing.Device {
	for _, d := range n.agent.Devices() {
		if d.ID == id {
			return d
		}
	}
	return listing.Device{}
}

// wantFault waits until the device has a fault of that code.
func (n *node) wantFault(id, code string) {
	n.Helper()
	n.eventually("device "+id+" has the fault "+code, func() bool {
		return slices.ContainsFunc(n.device(id).Faults, func(f listing.Fault) bool { return f.Code == code })
	})
}

// definitions are those of the CDI specs of a backend as they are now: what a container
// gets, by the device's name.
func (n *node) definitions(backend string, classes ...string) map[string]string {
	all := map[string]string{}
	for _, class := range classes {
		text, err := os.ReadFile(n.path("cdi", "accelmux-"+backend+"-"+class+".json"))
		if err != nil {
			continue
		}
		var spec struct {
			Devices []struct {
				Name           string
				ContainerEdits json.RawMessage
			}
		}
		if err := json.Unmarshal(text, &spec); err != nil {
			n.Errorf("the CDI spec of class %s: %v", class, err)
		}
		for _, d := range spec.Devices {
			all[d.Name] = string(d.ContainerEdits)
		}
	}
	return all
}

// allocate gives a pod so many units.
func (n *node) allocate(pod, resource string, units int) []string {
	n.Helper()
	allocation, err := n.kubelet.Allocate(n.Context(), pod, "main", resource, units)
	if err != nil {
		n.Fatal(err)
	}
	return allocation.Devices
}

// startContainer starts the pod's container main.
func (n *node) startContainer(pod string) error {
	_, err := n.kubelet.StartContainer(n.Context(), pod, "main")
	return err
}

// kill sends a signal to a process.
func (n *node) kill(pid int, signal syscall.Signal) {
	n.Helper()
	if err := syscall.Kill(pid, signal); err != nil {
		n.Fatal(err)
	}
}

// remove removes a file of the node's.
func (n *node) remove(name string) {
	n.Helper()
	if err := os.Remove(n.path(name)); err != nil {
		n.Fatal(err)
	}
}

// chartExample is the configuration in example values of the chart.
func chartExample(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile("../../deployments/helm/accelmux/examples/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var values struct{ Config string }
	if err := yaml.Unmarshal(text, &values); err != nil || values.Config == "" {
		t.Fatalf("the example has no configuration: %v", err)
	}
	return values.Config
}
