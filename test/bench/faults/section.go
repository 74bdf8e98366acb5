// Package faults is the section of what a hostile backend costs the others: containers
// that get the devices of a sound backend beside it.
package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/test/bench/rig"
	"github.com/accelmux/accelmux/test/hostile"
)

// Section is this section of the table.
var Section = rig.Section{
	Name: "faults",
	About: "Allocate of a healthy backend's devices (mock, 8 of them) while another backend of the same agent is hostile: the p99 of\n" +
		"calls that are timed one by one in its first seconds, with all\n" +
		"that the core does about it (test/hostile has the misdeeds). Each backend notes when its misdeed begins, and the agent\n" +
		"has to report a problem with it: otherwise there is no table. The floor is the p99 of the same agent's\n" +
		"Allocate in the same run while nothing is wrong, in turns where the misdeed can be switched off. Where the backend\n" +
		"itself burns more than a tenth of a core, an unrelated process burns as much meanwhile: CPU time that one process\n" +
		"takes from another on this machine is not the agent's doing.",
	Measure: measure,
	Roles:   map[string]rig.Role{burnRole: burn},
}

const (
	resource = "example.com/gpu"
	bad      = "example.com/bad"
	pod      = "pod" // that needs the hostile backend
	devices  = 8
	config   = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: bench
    backends:
      - name: bad
        command: hostilebackend
        env: {HOSTILE_MISDEED: %q, HOSTILE_WHILE: %q, HOSTILE_BEGUN: %q}
        allow: {process: {write: [%q]}}
        heartbeat: 300ms
        recovery: {delay: 0s}
        telemetry: {interval: 1s}
      - {name: mock, settings: {count: 8, numaNodes: 2}}
    resources:
      - {name: example.com/gpu, backend: mock}
      - {name: example.com/bad, backend: bad}
`
	// span is how long each side is measured at a time, and turns how often, where the
	// misdeed can be switched off: some thousand calls. Of another one this is measured for
	// once: a silence is noticed after 900 ms.
	span  = 600 * time.Millisecond
	turns = 3
	once  = 1500 * time.Millisecond
	// times is the limit, in times the floor.
	times = 2
	// idle is what a process may burn, as a part of a core, without a burner beside the floor.
	idle = 0.1
)

func measure(s *rig.Setup) (_ []rig.Figure, err error) {
	dir, err := os.MkdirTemp("", "f")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := install(s.Bin, dir); err != nil {
		return nil, err
	}
	var figures []rig.Figure
	for _, misdeed := range hostile.All() {
		figure, err := compare(s, dir, misdeed)
		if err != nil {
			return nil, fmt.Errorf("a backend that %s: %w", misdeed.What, err)
		}
		figures = append(figures, figure)
	}
	return figures, nil
}

// install fills the directory of the backends.
func install(bin, dir string) error {
	//nolint:noctx // it ends on its own
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "hostilebackend"), "./test/hostile/hostilebackend")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the hostile backend: %w\n%s", err, output)
	}
	const mock = "accelmux-backend-mock"
	err := errors.Join(os.WriteFile(filepath.Join(dir, "hostilebackend.yaml"), []byte(hostile.Manifest), 0o644), os.Symlink(filepath.Join(bin, mock), filepath.Join(dir, mock)))
	manifests, _ := filepath.Glob(filepath.Join(bin, mock+".*"))
	for _, file := range manifests {
		err = errors.Join(err, os.Symlink(file, filepath.Join(dir, filepath.Base(file))))
	}
	return err
}

// scene is an agent with a hostile backend, and a client of the sound one's.
type scene struct {
	*rig.Node
	misdeed hostile.Misdeed
	file    string // the misdeed goes on while it exists
	call    func() error
	client  *status.Client
}

func compare(s *rig.Setup, dir string, misdeed hostile.Misdeed) (_ rig.Figure, err error) {
	c := &scene{misdeed: misdeed, file: filepath.Join(dir, "on")}
	// What a hostile backend logs is in the agent's log.
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return rig.Figure{}, err
	}
	defer func() { err = errors.Join(withLog(err, log.Name()), log.Close()) }()
	c.Node, err = rig.Start(rig.NodeOptions{
		Bin: s.Bin, Config: fmt.Sprintf(config, misdeed.Name, c.file, c.mark(), dir+"/**"), Want: map[string]int{resource: devices, bad: hostile.Devices},
		Args: []string{"--backend-dir", dir}, Log: log,
	})
	if err != nil {
		return rig.Figure{}, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	conn, err := rig.Dial(c.Socket(resource))
	if err != nil {
		return rig.Figure{}, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	agent, request := pluginapi.NewDevicePluginClient(conn), rig.AllocateRequest(c.Units(resource)[0])
	c.client, c.call = status.NewClient(c.Path("run")), func() error {
		ctx, cancel := context.WithTimeout(context.Background(), rig.Patience)
		defer cancel()
		_, err := agent.Allocate(ctx, request)
		return err
	}
	defer func() { err = errors.Join(err, c.off()) }()
	if _, err := c.time(span / 3); err != nil { // warms up
		return rig.Figure{}, err
	}
	return c.race(s)
}

// withLog is an error with the end of the agent's log.
func withLog(err error, log string) error {
	if err == nil {
		return nil
	}
	text, bad := os.ReadFile(log)
	if bad != nil {
		return errors.Join(err, bad)
	}
	return fmt.Errorf("%w; the end of the agent's log:\n%s", err, text[max(0, len(text)-4096):])
}

// race times both sides.
func (c *scene) race(s *rig.Setup) (figure rig.Figure, err error) {
	rounds := 1
	if c.lasts() {
		rounds = s.Samples(turns)
	}
	var calm, during []time.Duration
	var burnt, core float64
	for range rounds {
		if burnt < idle {
			took, err := c.time(span)
			if err != nil {
				return figure, err
			}
			calm = append(calm, took...)
		}
		took, ours, its, err := c.disturbed()
		if err != nil {
			return figure, err
		}
		during = append(during, took...)
		if burnt, core = max(burnt, its), max(core, ours); burnt < idle {
			continue
		}
		if took, err = c.beside(burnt); err != nil {
			return figure, err
		}
		calm = took
	}
	memory, err := rig.PeakMemory(c.Agent)
	if err != nil {
		return figure, err
	}
	figure = rig.Figure{
		What: "others, while a backend " + c.misdeed.What, Unit: "µs", Times: times, Samples: len(during),
		Value: rig.Microseconds(rig.Quantile(during, 0.99)), Floor: rig.Microseconds(rig.Quantile(calm, 0.99)),
		FloorIs: "while nothing is wrong",
		Note:    fmt.Sprintf("the core took %.0f %% of a CPU, the backend %.0f %%; the core's peak is %.0f MB", 100*core, 100*burnt, memory),
	}
	if burnt >= idle {
		figure.FloorIs = "while an unrelated process burns what the backend does"
	}
	return figure, nil
}

// lasts says that the misdeed goes on for as long as its file is there, and is over then.
// Floods of updates are not: the core takes 20 a second, and what was sent
// meanwhile keeps it busy for a minute.
func (c *scene) lasts() bool {
	switch c.misdeed.Name {
	case "heavy-messages", "many-log-lines", "endless-log-line", "endless-output", "duplicate-ids":
		return true
	}
	return false
}

// length is how long the misdeed is watched at a time.
func (c *scene) length() time.Duration {
	if c.lasts() {
		return span
	}
	return once
}

// disturbed times calls while the backend is hostile, and says what of a CPU the core
// and the backend took.
func (c *scene) disturbed() (took []time.Duration, core, backend float64, err error) {
	pid := c.Backends["bad"]
	ours, its, began := used(c.Agent), used(pid), time.Now()
	if err := os.WriteFile(c.file, nil, 0o600); err != nil {
		return nil, 0, 0, err
	}
	begun := make(chan error, 1)
	go func() { begun <- c.begin(pid) }()
	took, err = c.during()
	lasted := time.Since(began).Seconds()
	core, backend = (used(c.Agent)-ours).Seconds()/lasted, max(0, (used(pid)-its).Seconds()/lasted)
	if err = errors.Join(err, <-begun); err == nil {
		err = c.shown()
	}
	return took, core, backend, errors.Join(err, c.off())
}

// used is what a process has used so far; nothing if it is gone.
func used(pid int) time.Duration {
	cpu, err := rig.CPU(pid)
	if err != nil {
		return 0
	}
	return cpu
}

// begin does what the misdeed needs to take place.
func (c *scene) begin(pid int) error {
	ctx, cancel := context.WithTimeout(context.Background(), rig.Patience)
	defer cancel()
	switch {
	case c.misdeed.Call == "Sample":
		_, err := c.client.Telemetry(ctx)
		return err
	case c.misdeed.Call == "Prepare":
		return c.refused(ctx)
	case c.misdeed.Call == "Release":
		return c.released(ctx)
	case c.misdeed.Group == hostile.Starts, c.misdeed.Name == "crashes-at-start",
		c.misdeed.Call == "Configure", c.misdeed.Call == "Watch":
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// refused has a container start that needs the backend, which must fail.
func (c *scene) refused(ctx context.Context) error {
	if _, err := c.Kubelet.Allocate(ctx, pod, "main", bad, 1); err != nil {
		return err
	}
	defer c.Kubelet.Free(pod)
	short, cancel := context.WithTimeout(ctx, once)
	defer cancel()
	if _, err := c.Kubelet.StartContainer(short, pod, "main"); err == nil {
		return errors.New("the container started in spite of it")
	}
	return nil
}

// off ends the misdeed, and waits until one that lasts is over: of a flood some is under way.
func (c *scene) off() error {
	if err := os.Remove(c.file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if over, _ := rig.Poll(patience, time.Millisecond, func() (bool, error) { return !c.lasts() || !c.began(), nil }); !over {
		return fmt.Errorf("it has not ended within %v", patience)
	}
	if err := os.Remove(c.mark()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// time times calls one by one.
func (c *scene) time(length time.Duration) ([]time.Duration, error) {
	var took []time.Duration
	for end := time.Now().Add(length); time.Now().Before(end); {
		began := time.Now()
		if err := c.call(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}

// during times calls while the misdeed is brought about, and on until it has gone on for
// its length. Of a long way to it just as much counts as of the misdeed itself.
func (c *scene) during() ([]time.Duration, error) {
	var took []time.Duration
	var at []time.Time
	limit := time.Now().Add(patience)
	for !c.began() {
		if time.Now().After(limit) {
			return nil, fmt.Errorf("it did not begin within %v", patience)
		}
		began := time.Now()
		if err := c.call(); err != nil {
			return nil, err
		}
		took, at = append(took, time.Since(began)), append(at, began)
	}
	since := time.Now().Add(-c.length())
	first, _ := slices.BinarySearchFunc(at, since, time.Time.Compare)
	more, err := c.time(c.length())
	return append(took[first:], more...), err
}

// beside times calls while an unrelated process burns a part of a core.
func (c *scene) beside(share float64) (took []time.Duration, err error) {
	burner, err := rig.Self(burnRole, fmt.Sprintf("%.3f", share))
	if err != nil {
		return nil, err
	}
	if err := burner.Start(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rig.End(burner)) }()
	return c.time(c.length())
}
