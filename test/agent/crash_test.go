package agent

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/test/patience"
	"github.com/accelmux/accelmux/test/trap"
)

// crashConfig has all ways to register and to inject.
const crashConfig = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: mock
        settings: {count: 4, scenarioFile: DIR/scenario.yaml, hooks: [prepare]}
        recovery: {delay: 0s}
      - {name: other, command: accelmux-backend-mock, settings: {count: 2, id: "o-{{.Index}}"}}
    resources:
      - {name: example.com/gpu, backend: mock}
      - {name: example.com/other, backend: other, registration: watcher, injection: plain}
`

// point is the moment before a system call: the nth of those that look alike.
type point struct {
	call string
	n    int
}

func (p point) String() string { return fmt.Sprintf("%s #%d", p.call, p.n) }

// changing are the system calls by which a process changes what others see; a process
// that is killed between two of them might as well have been killed before the second.
var changing = map[int]string{
	unix.SYS_OPENAT: "create", unix.SYS_RENAMEAT: "rename", unix.SYS_RENAMEAT2: "rename", unix.SYS_UNLINKAT: "unlink", unix.SYS_MKDIRAT: "mkdir",
	unix.SYS_PWRITE64: "write", unix.SYS_FALLOCATE: "allocate", unix.SYS_FSYNC: "sync", unix.SYS_FLOCK: "lock", unix.SYS_FCHMOD: "chmod",
	unix.SYS_FCHMODAT: "chmod", unix.SYS_BIND: "bind", unix.SYS_LISTEN: "listen", unix.SYS_CONNECT: "connect", unix.SYS_EXECVE: "execute",
	unix.SYS_KILL: "kill",
}

// A core that is killed (SIGKILL) before any system call by which it changes what others
// see leaves no backend running, no torn file, and no CDI name unresolved that a container
// has; it starts again cleanly, and a fault that kubelet was told of is still there,
// though the backend does not say it again.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	trap.Skip(t)
	points := dryRun(t)
	t.Logf("killed before %d system calls", len(points))
	for _, p := range points {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			c := newCrash(t, p)
			c.live()
			c.afterDeath()
			c.again()
		})
	}
}

// dryRun lives once and is not killed; it returns the moments at which it could be. A life on a node so busy that the
// agent's own limits ran out, as its log then says, is another one: it is lived again, twice at most.
func dryRun(t *testing.T) []point {
	t.Helper()
	for again := 2; ; again-- {
		c := newCrash(t, point{})
		c.live()
		if !c.over() {
			t.Fatalf("the life was not lived to its end\n%s", c.log.String())
		}
		if again > 0 && starved.MatchString(c.log.String()) {
			continue
		}
		if c.err != nil {
			t.Errorf("told to end, the agent ended with %v", c.err)
		}
		return c.passed()
	}
}

// starved are the agent's texts about processes that a limit of the agent found not run by the node.
var starved = regexp.MustCompile(`the node is (too|very) busy|they took too long to stop`)

// crash is a node whose agent is killed at a point.
type crash struct {
	*program
	at point
	// names are the CDI names that the pod has, with what they meant then.
	names map[string]string

	mu     sync.Mutex
	seen   []point
	counts map[string]int
	killed bool
	// sick is that kubelet was told of the fault that only a reboot mends; healed, that it
	// was told later that the device is healthy.
	sick   bool
	healed string
}

// broken is the device that gets that fault.
const broken = "mock-3"

func newCrash(t *testing.T, at point) *crash {
	t.Helper()
	c := &crash{at: at, counts: map[string]int{}}
	n := newNode(t)
	c.program = n.newProgram("run", n.command("run"))
	c.kubelet = kubelettest.New(c.path("kubelet"), kubelettest.Options{
		OnEvent: c.observe, OnDevices: c.told, Timing: kubelettest.Timing{Reconcile: 100 * time.Millisecond},
	})
	c.startKubelet()
	c.configure(crashConfig)
	c.scenario("{}")
	listener, err := trap.Start(slices.Collect(maps.Keys(changing)), c.called)
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Wrap(c.command); err != nil {
		t.Fatal(err)
	}
	c.launch(c.program)
	t.Cleanup(func() {
		c.signal(syscall.SIGKILL)
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// launch starts an agent.
func (c *crash) launch(p *program) {
	c.Helper()
	c.mu.Lock() // the first calls wait until the process is known
	defer c.mu.Unlock()
	p.start()
}

func (c *crash) passed() []point {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen)
}

// called counts a system call, and kills the agent before the one that it is about.
func (c *crash) called(call *trap.Call) {
	process := call.Process()
	c.mu.Lock()
	agent := c.pid()
	ours := process == agent && call.Number != unix.SYS_EXECVE
	if call.Number == unix.SYS_EXECVE && process != agent {
		ours = slices.Contains(children(c.T, agent), strconv.Itoa(process)) // it is about to become a backend
	}
	text := ""
	if ours {
		text = c.describe(call)
	}
	if text == "" || c.killed {
		c.mu.Unlock()
		return
	}
	c.counts[text]++
	p := point{text, c.counts[text]}
	c.seen = append(c.seen, p)
	c.killed = p == c.at
	dies := c.killed
	c.mu.Unlock()
	if dies {
		_ = syscall.Kill(agent, syscall.SIGKILL)
		// Answered before it is dead, the call would be made.
		patience.Within(patience.Long, func() bool { return !call.Waits() })
	}
}

// changeable are the parts of names that are others in each run.
var changeable = regexp.MustCompile(`[0-9a-f]{8,}|[0-9]+`)

// describe says what a call is about; "" if it changes nothing.
func (c *crash) describe(call *trap.Call) string {
	var paths []string
	text := func(argument int) {
		path, _ := call.Memory().Text(call.Arguments[argument])
		paths = append(paths, path)
	}
	switch call.Number {
	case unix.SYS_OPENAT:
		if call.Arguments[2]&unix.O_CREAT == 0 {
			return ""
		}
		text(1)
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		text(1)
		text(3)
	case unix.SYS_UNLINKAT, unix.SYS_MKDIRAT, unix.SYS_FCHMODAT:
		text(1)
	case unix.SYS_EXECVE:
		text(0)
	case unix.SYS_BIND, unix.SYS_CONNECT:
		paths = append(paths, socketName(call))
	case unix.SYS_KILL:
	default:
		path, _ := os.Readlink(call.Descriptor())
		paths = append(paths, path)
	}
	for i, path := range paths {
		path = strings.TrimPrefix(strings.TrimPrefix(path, c.dir+"/"), built.Dir(c.T)+"/")
		paths[i] = changeable.ReplaceAllString(path, "*")
	}
	return changing[call.Number] + " " + strings.Join(paths, " ")
}

// socketName is the name of a unix socket that is bound or connected to.
func socketName(call *trap.Call) string {
	address := make([]byte, min(call.Arguments[2], unix.SizeofSockaddrUnix))
	if call.Memory().Read(address, call.Arguments[1]) != 0 || len(address) < 3 || binary.NativeEndian.Uint16(address) != unix.AF_UNIX {
		return "?"
	}
	name, _, _ := bytes.Cut(address[2:], []byte{0})
	return string(name)
}

// told watches the lists that kubelet gets.
func (c *crash) told(resource string, devices []*pluginapi.Device) {
	if resource != gpu {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range devices {
		if d.GetID() != broken {
			continue
		}
		healthy := d.GetHealth() == pluginapi.Healthy
		if c.sick = c.sick || !healthy; c.sick && healthy {
			c.healed = fmt.Sprintf("kubelet was told that %s is unhealthy, and then that it is healthy", broken)
		}
	}
}

// until waits for the condition, and reports whether the agent lives and it holds.
func (c *crash) until(what string, condition func() bool) bool {
	c.Helper()
	c.eventually(what, func() bool { return c.over() || condition() })
	return !c.over()
}
