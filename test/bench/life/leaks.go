package life

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/accelmux/accelmux/test/bench/rig"
)

// Leaks is the section of what a long life leaves behind.
var Leaks = rig.Section{
	Name: "leaks",
	About: "One agent with four mock backends and four resources: what it has after 10 of everything (the floor), and after\n" +
		"1,000 backend processes that were replaced (half of them killed, each with a change of its configuration, which ends\n" +
		"the pause that a killed one gets), then 1,000 restarts of kubelet, then 1,000 configurations with other numbers of\n" +
		"devices. Each number is the least of three times 20 samples, 12 s after a collection, by when\n" +
		"the agent has given back what it does not need. The heap is what a collection found in use, the median of 40 in a row.",
	Measure: measureLeaks,
}

const (
	rounds = 1000
	// few are the rounds of what the rest is compared with.
	few = 10
	// samples are taken of each state in each of the looks at it. Between two looks at an
	// agent that does nothing, anonymous memory was seen from 14.5 to 16.7 MB.
	looks                = 3
	samples, sampleEvery = 20, 100 * time.Millisecond
	// collections of garbage are waited for before, with scrapes that make some, of which
	// those are left out that passed when the agent was not asked all the time yet.
	passed, collections = 3, 40
	// calm is how long the agent is left alone before: memory that it does not need it
	// gives back ten seconds after a collection.
	calm = 12 * time.Second
	// What may be more than before is what was seen to differ between two looks at an agent
	// that does nothing, in runs of a thousand each: no descriptor, two goroutines (of a
	// scrape, and of a call that the stand-in kubelet has going on), five threads. A leak of
	// one for every hundred rounds is beyond it. Threads are those that Go makes when some are
	// in a call of the kernel for long, and never ends: up to one for each backend process
	// that there is at a time, old and new.
	slackGoroutines, slackFiles, slackThreads = 2, 0, 8
	// slackMemory is how far memory may be apart, as a part. A leak of 3 kB a round is
	// beyond it.
	slackMemory = 0.15
)

// phase is something that is done over and over.
type phase struct {
	name string
	// rounds make up a thousand of it.
	rounds int
	once   func(*life) error
}

// life is a node with an agent that has been through something.
type life struct {
	*node
	agent   *agent
	metrics string
	// turn counts what was done, so that each configuration is another one.
	turn int
}

func measureLeaks(s *rig.Setup) (_ []rig.Figure, err error) {
	n, err := newNode(s.Bin, configuration("socket", plain))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	l := &life{node: n}
	if l.metrics, err = rig.FreePort(); err != nil {
		return nil, err
	}
	if l.agent, err = n.start(first, "--metrics-address", l.metrics); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.agent.stop()) }()
	if err := l.waitUnits(units); err != nil {
		return nil, err
	}
	phases := []phase{
		{"backend restarts", rounds / len(backends), (*life).replace},
		{"kubelet restarts", rounds, (*life).restartKubelet},
		{"configurations", rounds, (*life).reload},
	}
	for _, p := range phases {
		if err := l.repeat(p, few); err != nil {
			return nil, err
		}
	}
	before, err := l.sample()
	if err != nil {
		return nil, err
	}
	var figures []rig.Figure
	for _, p := range phases {
		turns := s.Samples(p.rounds)
		if err := l.repeat(p, turns); err != nil {
			return nil, err
		}
		after, err := l.sample()
		if err != nil {
			return nil, err
		}
		figures = append(figures, compare(before, after, p.name, turns*rounds/p.rounds)...)
	}
	return figures, nil
}

// compare are the lines of one phase.
func compare(before, after measured, name string, times int) []rig.Figure {
	var figures []rig.Figure
	for _, what := range kinds {
		was, is := before[what.name], after[what.name]
		limit := was + what.slack
		if what.part > 0 {
			limit = math.Round(100*was*(1+what.part)) / 100
		}
		figures = append(figures, rig.Figure{
			What: fmt.Sprintf("%s after %s", what.name, name), Value: is, Unit: what.unit, Limit: limit,
			Floor: was, FloorIs: fmt.Sprintf("after %d of everything", few), Beyond: true, Samples: times,
		})
	}
	return figures
}

// repeat does something so often, and says how far it is.
func (l *life) repeat(p phase, turns int) error {
	began := time.Now()
	for i := range turns {
		if err := p.once(l); err != nil {
			return fmt.Errorf("%s, round %d: %w", p.name, i, err)
		}
		if every := max(turns/5, few); (i+1)%every == 0 {
			fmt.Fprintf(os.Stderr, "leaks: %s: %d of %d rounds, %v\n", p.name, i+1, turns, time.Since(began).Round(time.Second))
		}
	}
	return nil
}

// replace kills half of the backends, and has all of them replaced by a change of their
// environment.
func (l *life) replace() error {
	l.turn++
	before := map[string]int{}
	report, err := l.agent.report()
	if err != nil {
		return err
	}
	for i, b := range report.Backends {
		before[b.Name] = b.PID
		if (i+l.turn)%2 == 0 && b.PID > 0 {
			if err := syscall.Kill(b.PID, syscall.SIGKILL); err != nil {
				return fmt.Errorf("kill backend %s: %w", b.Name, err)
			}
		}
	}
	turn := l.turn
	if err := l.configure(configuration("socket", func(name string) string {
		return fmt.Sprintf("env: {TURN: %q}, %s", fmt.Sprint(turn), plain(name))
	})); err != nil {
		return err
	}
	return l.agent.await("other processes", func() bool {
		report, err := l.agent.report()
		return err == nil && report.Config.Waits == "" && len(report.NotReady) == 0 && !slices.ContainsFunc(backends, func(name string) bool {
			for _, b := range report.Backends {
				if b.Name == name {
					return b.State != "running" || b.PID == before[name]
				}
			}
			return true
		})
	})
}

// restartKubelet restarts it, and waits for all capacity.
func (l *life) restartKubelet() error {
	l.kubelet.Stop()
	l.forget()
	if err := l.kubelet.Start(); err != nil {
		return err
	}
	_, err := l.all("capable", l.capable)
	return err
}

// reload takes on a configuration with one device more or less.
func (l *life) reload() error {
	l.turn++
	turn := l.turn
	return errors.Join(l.configure(configuration("socket", func(string) string {
		return fmt.Sprintf("settings: {count: %d}", units+turn%2)
	})), l.waitUnits(units+turn%2))
}
