package life

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/test/bench/rig"
)

// Kubelet is the section of kubelet's restarts.
var Kubelet = rig.Section{
	Name: "kubelet",
	About: "Restarts of the stand-in kubelet, away for 20 ms, with the four resources of an agent: from right before its new\n" +
		"socket listens until the last of them is registered (its call is in, and kubelet has connected back), and until all\n" +
		"capacity is back. In turns with the same of a bare device plugin, a process with four gRPC servers that does nothing\n" +
		"but watch for the socket and register. Over plugins_registry, kubelet finds what is there when it starts. Killed, it\n" +
		"leaves a socket that refuses, for 200 ms. Of kills there are too few for a p99.",
	Measure: measureKubelet,
	Roles:   map[string]rig.Role{bareRole: serveBare},
}

const (
	restarts = 200
	kills    = 40
	// away is how long kubelet is, dead how long if it was killed.
	away, dead = 20 * time.Millisecond, 200 * time.Millisecond
	// registeredP99 and registeredWorst are the limits, in milliseconds.
	registeredP99, registeredWorst = 25, 100
)

// returns are how long restarts took: until all are registered, and until all capacity
// is back.
type returns struct{ registered, capable []time.Duration }

func measureKubelet(s *rig.Setup) (_ []rig.Figure, err error) {
	bare, stop, err := startBare(s.Bin)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var figures []rig.Figure
	for _, way := range []struct {
		registration, what string
		restarts           int
		kill               bool
		p99, worst         float64
	}{
		{"socket", "over kubelet.sock", s.Samples(restarts), false, registeredP99, registeredWorst},
		{"socket", "after a kill", s.Samples(kills), true, 0, 0},
		{"watcher", "over plugins_registry", s.Samples(restarts), false, 0, 0},
	} {
		agent, floor, err := restartKubelet(s.Bin, bare, way.registration, way.restarts, way.kill)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", way.what, err)
		}
		figures = append(figures, quantiles("registered "+way.what, agent.registered, floor.registered, way.p99, way.worst)...)
		figures = append(figures, quantiles("capacity "+way.what, agent.capable, floor.capable, 0, 0)...)
	}
	return figures, nil
}

// enough is of how many times a p99 is told: of fewer it is hardly another than the slowest.
const enough = 200

// quantiles are the lines of the table.
func quantiles(what string, times, floors []time.Duration, p99, worst float64) []rig.Figure {
	var figures []rig.Figure
	for _, q := range []struct {
		name      string
		of, limit float64
	}{{"p50", 0.5, 0}, {"p99", 0.99, p99}, {"slowest", 1, worst}} {
		if q.of == 0.99 && len(times) < enough {
			continue
		}
		figures = append(figures, rig.Figure{
			What: what + ", " + q.name, Unit: "ms", Limit: q.limit, Samples: len(times),
			Value: rig.Milliseconds(rig.Quantile(slices.Clone(times), q.of)),
			Floor: rig.Milliseconds(rig.Quantile(slices.Clone(floors), q.of)), FloorIs: "a bare device plugin over kubelet.sock",
		})
	}
	return figures
}

// startBare is a node with the bare device plugin in the place of an agent.
func startBare(bin string) (_ *node, stop func() error, err error) {
	n, err := newNode(bin, "")
	if err != nil {
		return nil, nil, err
	}
	var process *exec.Cmd
	stop = func() error { return errors.Join(rig.End(process), n.close()) }
	if process, err = rig.Self(bareRole, n.kubelet.PluginDir()); err == nil {
		err = process.Start()
	}
	if err == nil {
		_, err = n.all("capable", capable)
	}
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return n, stop, nil
}

// restartKubelet restarts the kubelets of an agent and of the bare device plugin in turns.
func restartKubelet(bin string, bare *node, registration string, restarts int, kill bool) (ours, floor returns, err error) {
	n, err := newNode(bin, configuration(registration, plain))
	if err != nil {
		return ours, floor, err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	a, err := n.start(first)
	if err != nil {
		return ours, floor, err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	if _, err := n.all("capable", capable); err != nil {
		return ours, floor, err
	}
	for range restarts {
		if err := errors.Join(n.restart(&ours, kill), bare.restart(&floor, kill)); err != nil {
			return ours, floor, err
		}
	}
	return ours, floor, nil
}

// restart restarts kubelet, and notes how long it took until everything was back.
func (n *node) restart(to *returns, kill bool) error {
	if kill {
		n.kubelet.Kill()
		<-time.After(dead)
	} else {
		n.kubelet.Stop()
		<-time.After(away)
	}
	n.forget()
	if err := n.kubelet.Start(); err != nil {
		return err
	}
	at, err := n.all("registered", registered)
	if err != nil {
		return err
	}
	back, err := n.all("capable", capable)
	if err != nil {
		return err
	}
	began := n.started()
	to.registered, to.capable = append(to.registered, at.Sub(began)), append(to.capable, back.Sub(began))
	return nil
}

// started is when kubelet began to listen last, or a moment before.
func (n *node) started() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range slices.Backward(n.events) {
		if e.Type == kubelettest.EventStarted {
			return e.At
		}
	}
	return time.Time{}
}
