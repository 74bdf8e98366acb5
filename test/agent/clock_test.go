package agent

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/test/clock"
	"github.com/accelmux/accelmux/test/host"
)

// stepClock sets the clock of a running process. A test that may not do that is skipped.
func stepClock(t *testing.T, pid int, step time.Duration) {
	t.Helper()
	c, err := clock.Of(pid)
	if errors.Is(err, errors.ErrUnsupported) {
		host.Lacks(t, "%v", err)
	}
	if err == nil {
		err = c.Step(step)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A clock that is set by an hour, to either side, while everything runs changes nothing:
// no device is lost for a moment, no backend is taken for one that hangs, no holder is
// forgotten. A fault is known at once, heals in its time, and kubelet is found again.
func TestClockStepped(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.startKubelet()
			n.configure(strings.Replace(twoBackends, "recovery: {delay: 0s}", "recovery: {delay: 500ms}", 1))
			p := n.runProgram()
			n.wantCounts(gpu, 4, 4)
			n.wantCounts(fpga, 2, 2)
			held := n.allocate("before", gpu, 1)
			pids := []int{p.pid()}
			for _, name := range []string{"mock", "other"} {
				n.eventually("backend "+name+" runs", func() bool { return p.backend(name).PID != 0 })
				pids = append(pids, p.backend(name).PID)
			}
			for _, pid := range pids {
				stepClock(t, pid, step)
			}
			n.mark(gpu)
			n.mark(fpga)
			// On streams, and against intervals, from before.
			n.scenario("devices: {mock-3: {fault: {code: x, recovery: self}}}")
			n.wantCounts(gpu, 4, 3)
			n.scenario("")
			n.wantCounts(gpu, 4, 4)
			n.wantNoDip(gpu, 3)
			n.wantNoDip(fpga, 2)
			n.eventually("the agent has the other time", func() bool {
				if err := n.kubelet.Restart(); err != nil {
					t.Fatal(err)
				}
				n.wantCounts(gpu, 4, 4)
				n.wantCounts(fpga, 2, 2)
				return n.stamped(step)
			})
			n.allocate("after", gpu, 2)
			report := p.report()
			for i, name := range []string{"mock", "other"} {
				if b := report.Backends[i]; b.Name != name || b.PID != pids[i+1] || b.Restarts != 0 {
					t.Errorf("backend %s was restarted: %+v", name, b)
				}
			}
			if len(report.Problems) > 0 {
				t.Errorf("problems: %+v", report.Problems)
			}
			n.stopAgent()
			// The next agent finds times that lie an hour ahead, or back.
			n.startAgent()
			n.wantCounts(gpu, 4, 4)
			n.eventually("the holder is known", func() bool { return len(n.device(held[0]).Holders) == 1 })
			if problems := n.problems(); problems != "" {
				t.Errorf("after a restart: %s", problems)
			}
		})
	}
}

// stamped reports whether the log has a line from about so long after now.
func (n *node) stamped(step time.Duration) bool {
	lines := strings.Split(strings.TrimSpace(n.log.String()), "\n")
	text, _, _ := strings.Cut(strings.TrimPrefix(lines[len(lines)-1], "time="), " ")
	at, err := time.Parse(time.RFC3339Nano, text)
	off := time.Until(at) - step
	return err == nil && off.Abs() < 10*time.Minute
}
