package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// window is how long a start is looked at, so that all are comparable.
	window = 15 * time.Second
	// evenly is how long the bare watches take to start: all at once, the server
	// turns most of them away.
	evenly = 10 * time.Second
	// settleLimit bounds how long the agents may take to be there again.
	settleLimit = 3 * time.Minute
)

// bench goes through the phases.
type bench struct {
	plane        *controlPlane
	admin        *admin
	fleet        *fleet
	steady, away time.Duration
	// idle is the server's CPU time per second with nobody there, and floor what
	// the bare watches cost beyond that in their window.
	idle, floor float64
	// boot is the CPU time of a start of the server.
	boot float64
}

func (b *bench) run(ctx context.Context) error {
	fmt.Printf("%d agents\n%-38s %7s %7s %6s %7s %8s %8s %8s %7s %9s\n", len(b.fleet.names),
		"", "watch", "Event", "429", "peak/s", "half in", "all in", "CPU s", "ratio", "memory MB")
	for _, phase := range []func(context.Context) error{
		b.atIdle, b.bareWatches, b.firstStart, b.atRest, b.labelChange, b.restart, b.serverRestart, b.serverAway,
	} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	return nil
}

// row prints a line of the table; cpu is what the server used beyond its own.
func (b *bench) row(name string, s summary, cpu, memory float64) {
	ratio := ""
	if b.floor > 0 {
		ratio = fmt.Sprintf("%.2f", cpu/b.floor)
	}
	half, all := "", ""
	if s.all > 0 {
		half, all = fmt.Sprintf("%.1f s", s.half.Seconds()), fmt.Sprintf("%.1f s", s.all.Seconds())
	}
	fmt.Printf("%-38s %7d %7d %6d %7d %8s %8s %8.2f %7s %9.0f\n", name, s.answered[watchNode], s.answered[writeEvent],
		s.turnedAway, s.peak, half, all, cpu, ratio, memory)
}

func (b *bench) atIdle(ctx context.Context) (err error) {
	b.idle, err = b.rest(ctx, "no agents", b.steady/2)
	return err
}

// starting measures a start of all agents at once: the window, or longer if they
// take longer.
func (b *bench) starting(ctx context.Context, name string, bare bool, events int) (cpu float64, err error) {
	before, err := b.admin.metrics(ctx)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	b.fleet.start(ctx, bare)
	if err := b.settle(ctx, start, events); err != nil {
		return 0, err
	}
	if err := pause(ctx, window-time.Since(start)); err != nil {
		return 0, err
	}
	after, err := b.admin.metrics(ctx)
	if err != nil {
		return 0, err
	}
	cpu = after.cpu() - before.cpu() - b.idle*time.Since(start).Seconds()
	b.row(name, b.fleet.traffic.since(start), cpu, after.memory())
	if got := after.watches() - before.watches(); got != float64(len(b.fleet.names)) {
		return 0, fmt.Errorf("%s: the API server counts %v watches more than before", name, got)
	}
	return cpu, nil
}

// settle waits until every agent watches and the Events are written.
func (b *bench) settle(ctx context.Context, start time.Time, events int) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	return until(ctx, "all agents watch", func() bool {
		return b.fleet.traffic.running() == len(b.fleet.names) && b.fleet.traffic.since(start).answered[writeEvent] >= events
	})
}

func (b *bench) bareWatches(ctx context.Context) error {
	cpu, err := b.starting(ctx, fmt.Sprintf("bare watches, evenly over %v", evenly), true, 0)
	if err != nil {
		return err
	}
	b.floor = cpu
	if _, err := b.rest(ctx, "  at rest", b.steady/2); err != nil {
		return err
	}
	return b.fleet.stop()
}

func (b *bench) firstStart(ctx context.Context) error {
	_, err := b.starting(ctx, "agents, first start, all at once", false, len(b.fleet.names))
	return err
}

func (b *bench) atRest(ctx context.Context) error {
	_, err := b.rest(ctx, "  at rest", b.steady)
	return err
}

// rest measures what the server does while nothing happens, and returns its CPU
// time per second.
func (b *bench) rest(ctx context.Context, name string, d time.Duration) (float64, error) {
	before, err := b.admin.metrics(ctx)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := pause(ctx, d); err != nil {
		return 0, err
	}
	after, err := b.admin.metrics(ctx)
	if err != nil {
		return 0, err
	}
	cpu := (after.cpu() - before.cpu()) / d.Seconds()
	s := b.fleet.traffic.since(start)
	fmt.Printf("%-38s %7d %7d %6d %34.2f %17.0f   %.0f watches, %.0f watch events\n", fmt.Sprintf("%s for %v, CPU a minute", name, d),
		s.answered[watchNode], s.answered[writeEvent], s.turnedAway, cpu*time.Minute.Seconds(), after.memory(),
		after.watches(), after.watchEvents()-before.watchEvents())
	return cpu, nil
}

// labelChange labels every Node, and measures until its agent has chosen.
func (b *bench) labelChange(ctx context.Context) error {
	before, err := b.admin.metrics(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	var mu sync.Mutex
	sent := map[string]time.Time{}
	if err := each(len(b.fleet.names), func(i int) error {
		mu.Lock()
		sent[b.fleet.names[i]] = time.Now()
		mu.Unlock()
		return b.admin.label(ctx, b.fleet.names[i], "b")
	}); err != nil {
		return err
	}
	took := time.Since(start)
	if err := b.settle(ctx, start, len(b.fleet.names)); err != nil {
		return err
	}
	if seen, _ := b.fleet.on("b"); seen != len(sent) {
		return fmt.Errorf("%d agents have seen the new label of %d", seen, len(sent))
	}
	after, err := b.admin.metrics(ctx)
	if err != nil {
		return err
	}
	var latencies []time.Duration
	b.fleet.mu.Lock()
	for name, at := range sent {
		latencies = append(latencies, b.fleet.applied[name].at.Sub(at))
	}
	b.fleet.mu.Unlock()
	slices.Sort(latencies)
	b.row("every Node labelled", b.fleet.traffic.since(start), after.cpu()-before.cpu()-b.idle*time.Since(start).Seconds(), after.memory())
	fmt.Printf("  all labelled in %.1f s; from the request to the agent's choice: p50 %v, p99 %v, most %v\n", took.Seconds(),
		latencies[len(latencies)/2].Round(10*time.Microsecond), latencies[len(latencies)*99/100].Round(10*time.Microsecond), latencies[len(latencies)-1].Round(10*time.Microsecond))
	return nil
}

// restart restarts every agent at once, with what it remembers.
func (b *bench) restart(ctx context.Context) error {
	if err := b.fleet.stop(); err != nil {
		return err
	}
	_, err := b.starting(ctx, "agents restarted, all at once", false, 0)
	return err
}

func (b *bench) serverRestart(ctx context.Context) error {
	return b.back(ctx, "API server crashed and restarted", 0)
}

func (b *bench) serverAway(ctx context.Context) error {
	return b.back(ctx, fmt.Sprintf("API server crashed, away for %v", b.away), b.away)
}

// back ends the API server, starts it again after a while, and measures how the
// agents come back to it, from the moment it is ready.
func (b *bench) back(ctx context.Context, name string, away time.Duration) error {
	_, changes := b.fleet.on("b")
	gone := time.Now()
	if err := b.plane.stopServer(syscall.SIGKILL); err != nil {
		return err
	}
	if err := pause(ctx, away); err != nil {
		return err
	}
	if err := b.plane.startServer(ctx); err != nil {
		return err
	}
	ready := time.Now()
	if err := b.settle(ctx, ready, 0); err != nil {
		return err
	}
	if err := pause(ctx, window-time.Since(ready)); err != nil {
		return err
	}
	after, err := b.admin.metrics(ctx)
	if err != nil {
		return err
	}
	all, while := b.fleet.traffic.since(gone), b.fleet.traffic.since(ready)
	all.half, all.all = while.half, while.all
	b.row(name, all, after.cpu()-b.boot-b.idle*time.Since(ready).Seconds(), after.memory())
	fmt.Printf("  unavailable for %.1f s, in which %d requests failed to connect\n", ready.Sub(gone).Seconds(), all.unanswered)
	if seen, now := b.fleet.on("b"); now != changes || seen != len(b.fleet.names) {
		return fmt.Errorf("%s: %d agents chose again, %d have the labels last seen", name, now-changes, seen)
	}
	return nil
}
