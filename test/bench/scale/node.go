package scale

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/accelmux/accelmux/test/bench/rig"
)

const (
	resource = "example.com/gpu"
	floor    = "example.com/floor"
	// patience bounds every wait.
	patience = time.Minute

	config = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: bench
    backends:
      - name: mock
        recovery: {delay: 0s}
        settings: {count: COUNT, scenarioFile: DIR/scenario.yaml, changeLog: DIR/changes}
    resources:
      - {name: example.com/gpu}
`
)

// node is the agent and the mock backend, a kubelet, and a bare server for comparison,
// all as processes.
type node struct {
	shape
	dir     string
	agent   *exec.Cmd
	metrics string
	kubelet *child
	bare    *child
	lists   chan list
	// changes is how many lines the mock's log has.
	changes int
	// readings is how often the core's counters are read before and after what is measured.
	readings int
}

func startNode(bin string, s shape) (_ *node, err error) {
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		return nil, err
	}
	n := &node{shape: s, dir: dir, lists: make(chan list, 1024)}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.stop())
		}
	}()
	if n.kubelet, err = startChild(roleKubelet, n.path("kubelet")); err != nil {
		return nil, err
	}
	if _, err := n.kubelet.line(); err != nil {
		return nil, err
	}
	go n.listen()
	text := strings.NewReplacer("DIR", dir, "COUNT", fmt.Sprint(s.devices)).Replace(config)
	if err := errors.Join(os.WriteFile(n.path("node.yaml"), []byte(text), 0o600), n.scenario("")); err != nil {
		return nil, err
	}
	if n.metrics, err = rig.FreePort(); err != nil {
		return nil, err
	}
	//nolint:noctx // it is ended by stop, with a signal
	n.agent = exec.Command(filepath.Join(bin, "accelmux"), "run", "--config", n.path("node.yaml"), "--kubelet-dir", n.path("kubelet"),
		"--cdi-dir", n.path("cdi"), "--state-dir", n.path("state"), "--run-dir", n.path("run"), "--backend-dir", bin,
		"--metrics-address", n.metrics, "--log-level", "error")
	n.agent.Stderr = os.Stderr
	if err := n.agent.Start(); err != nil {
		return nil, err
	}
	if _, err := n.await(resource, s.devices, s.devices); err != nil {
		return nil, err
	}
	return n, n.startBare()
}

// startBare starts the floor, with as many devices, whose IDs are as long.
func (n *node) startBare() (err error) {
	if n.bare, err = startChild(roleBare, filepath.Join(n.path("kubelet"), "device-plugins"), floor); err != nil {
		return err
	}
	in := bufio.NewWriter(n.bare.in)
	_, _ = fmt.Fprintln(in, n.devices) // Flush says it
	for i := range n.devices {
		_, _ = fmt.Fprintf(in, "mock-%d\n", i)
	}
	if err := in.Flush(); err != nil {
		return err
	}
	_, err = n.await(floor, n.devices, n.devices)
	return err
}

// listen passes on what kubelet gets until it ends.
func (n *node) listen() {
	defer close(n.lists)
	for {
		line, err := n.kubelet.line()
		if err != nil {
			return
		}
		if l, err := parseList(line); err == nil {
			n.lists <- l
		}
	}
}

func (n *node) path(name string) string { return filepath.Join(n.dir, name) }

// await waits until kubelet has such a list of a resource, and says since when.
func (n *node) await(resource string, devices, healthy int) (time.Time, error) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	last := list{}
	for {
		select {
		case l, ok := <-n.lists:
			if !ok {
				return time.Time{}, errors.New("the stand-in kubelet ended")
			}
			if last = l; l.resource == resource && l.devices == devices && l.healthy == healthy {
				return l.at, nil
			}
		case <-limit.C:
			return time.Time{}, fmt.Errorf("kubelet has not got %d devices of %s, %d healthy, within %v; its last list is %+v", devices, resource, healthy, patience, last)
		}
	}
}

// scenario makes it the mock's.
func (n *node) scenario(text string) error {
	if err := os.WriteFile(n.path("next.yaml"), []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(n.path("next.yaml"), n.path("scenario.yaml"))
}

// noticed is when the mock noticed its latest change; there must have been so many.
func (n *node) noticed() (time.Time, error) {
	for limit := time.Now().Add(patience); time.Now().Before(limit); {
		text, err := os.ReadFile(n.path("changes"))
		if err != nil {
			return time.Time{}, err
		}
		if lines := strings.Fields(string(text)); len(lines) >= n.changes && strings.HasSuffix(string(text), "\n") {
			at, err := strconv.ParseInt(lines[n.changes-1], 10, 64)
			return time.Unix(0, at), err
		}
		<-time.After(10 * time.Millisecond)
	}
	return time.Time{}, errors.New("the mock backend has not noted its change")
}

func (n *node) stop() error {
	var errs []error
	if n.agent != nil && n.agent.Process != nil {
		errs = append(errs, n.agent.Process.Signal(syscall.SIGTERM))
		var exit *exec.ExitError
		if err := n.agent.Wait(); err != nil && !errors.As(err, &exit) {
			errs = append(errs, err)
		}
	}
	for _, c := range []*child{n.bare, n.kubelet} {
		if c != nil {
			errs = append(errs, c.stop())
		}
	}
	return errors.Join(append(errs, os.RemoveAll(n.dir))...)
}

// garbage is what the core allocates for each of so many events, which do has happen.
func (n *node) garbage(events int, do func() error) (rig.Garbage, error) {
	all, err := rig.GarbageBetween(n.metrics, n.readings, do)
	return all.Times(1 / float64(events)), err
}
