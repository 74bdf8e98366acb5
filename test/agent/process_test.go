package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/core/telemetry"
)

// orderEnv makes the test's program an agent; its value is an order.
const orderEnv = "ACCELMUX_TEST_AGENT"

// order is what an agent in a process of its own is told: where its node is, and the
// limits that run out in a test. Failures is how many failures quarantine a backend, 3 if it is 0.
type order struct {
	Dir, Programs string

	Start, Configure, FirstInventory, Prepare, Release, Reset time.Duration
	Failures                                                  int
}

// options are those of a node's usual agent, with the order's limits.
func (o order) options() agent.Options {
	n := &node{dir: o.Dir}
	options := n.optionsOf(o.Programs)
	options.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	options.Timing.ReleaseBackoff = 50 * time.Millisecond
	quickUsage(&options)
	options.Timing.Telemetry = telemetry.Timing{Silence: time.Second, First: time.Second}
	usual := options.Timing.Supervisor
	options.Timing.Supervisor = supervisor.Timing{
		Timing: plug.Timing{
			Start: cmp.Or(o.Start, usual.Start), Health: 10 * time.Second, Terminate: 300 * time.Millisecond, Kill: usual.Kill, Reap: 10 * time.Second,
		},
		Configure:      cmp.Or(o.Configure, usual.Configure),
		FirstInventory: cmp.Or(o.FirstInventory, usual.FirstInventory),
		Prepare:        o.Prepare, Release: o.Release, Reset: o.Reset, Abandon: 100 * time.Millisecond,
		Backoff: 20 * time.Millisecond, BackoffLimit: 100 * time.Millisecond, ProgramPoll: 50 * time.Millisecond,
		Failures: cmp.Or(o.Failures, 3), Quarantine: time.Second, QuarantineLimit: time.Second,
	}
	return options
}

// playAgent is the main function of such a process.
func playAgent(text string) int {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	a, err := agent.Open(o.options())
	if err == nil {
		err = a.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the agent ended with:", err)
		return 1
	}
	return 0
}

// startProcess starts such an agent on the node, so that what it needs can be told from what the
// test needs; it ends with the test.
func (n *node) startProcess(o order) *program {
	n.Helper()
	self, err := os.Executable()
	if err != nil {
		n.Fatal(err)
	}
	o.Dir = n.dir
	text, err := json.Marshal(o)
	if err != nil {
		n.Fatal(err)
	}
	command := exec.Command(self)
	command.Env = append(os.Environ(), orderEnv+"="+string(text))
	command.Stderr, command.Stdout = &n.log, &n.log
	// Its output is done when it is, whoever has its pipes.
	command.WaitDelay = time.Second
	p := n.newProgram("run", command)
	p.serve()
	return p
}

// peak is the most memory that the process had at a time, in MB: VmHWM of
// proc_pid_status(5).
func (p *program) peak() int {
	p.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid()))
	if err != nil {
		p.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		p.Fatalf("process %d has no VmHWM:\n%s", p.pid(), text)
	}
	kilobytes, err := strconv.Atoi(fields[0])
	if err != nil {
		p.Fatal(err)
	}
	return kilobytes >> 10
}
