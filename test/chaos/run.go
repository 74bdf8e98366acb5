package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// runner runs lists of steps, each on a node of its own.
type runner struct {
	programs string   // directory of the backends
	library  string   // double of NVML; "" for none
	unbuilt  []string // programs of vendors' backends that are left out
	agent    string   // program
	kubelet  string   // program of a real one; "" for the stand-in
	bound    time.Duration
	mounts   bool
	out      io.Writer
	verbose  bool
	// most is how many steps are taken that are not skipped; 0 for all.
	most int
	// limit is how long steps are taken; 0 for as long as there are some. While fewer than
	// least are done it is slowest times as long.
	limit time.Duration
	least int
	// keep is where the agents' log is kept; "" for nowhere.
	keep string
}

// result is what came of a run.
type result struct {
	done, skipped int
	// taken are the steps that were not skipped, also one that failed.
	taken []step
	// counts are the steps that were done, by action.
	counts  map[string]int
	slowest time.Duration
	slow    step
	took    time.Duration
}

// failure is a run that broke an invariant, or could not be carried out.
type failure struct {
	at  int // index of the step, or atStart
	err error
	log string // the last events and lines of the agents' log
}

// atStart is in the place of a step: the node did not come to rest before the first.
const atStart = -1

func (f *failure) Error() string {
	if f.at == atStart {
		return f.err.Error()
	}
	return fmt.Sprintf("step %d: %v", f.at+1, f.err)
}

func (f *failure) Unwrap() error { return f.err }

// name is the invariant's, or "" if the runner itself failed.
func (f *failure) name() string {
	var v *violation
	if errors.As(f.err, &v) {
		return v.name
	}
	return ""
}

// run makes a node and goes through the steps. The error is a failure, or that of a
// node that could not be made.
func (r *runner) run(ctx context.Context, steps []step) (result, error) {
	began := time.Now()
	res := result{counts: map[string]int{}}
	printed := began
	w, err := newWorld(ctx, r)
	if err != nil {
		return res, fmt.Errorf("make a node: %w", err)
	}
	last := 0 // the last step that was tried
	for i, s := range steps {
		if r.most > 0 && res.done == r.most || r.over(time.Since(began), res.done) {
			break
		}
		last = i
		from := time.Now()
		if !r.verbose && from.Sub(printed) > progressEvery {
			printed = from
			_, _ = fmt.Fprintf(r.out, "after %v: %d steps done, %d had nothing to do\n", from.Sub(began).Round(time.Second), res.done, res.skipped)
		}
		w.waited = nil
		err := w.perform(ctx, s)
		skipped := errors.Is(err, errSkip)
		if r.verbose {
			after := map[bool]string{true: "skipped"}[skipped]
			if took := time.Since(from); took > slowStep && w.waited != nil {
				after = fmt.Sprintf("(waited for %v)", w.waited)
			}
			_, _ = fmt.Fprintf(r.out, "%5d %-24s %v %s\n", i+1, s, time.Since(from).Round(time.Millisecond), after)
		}
		if skipped {
			res.skipped++
			continue
		}
		res.taken = append(res.taken, s)
		if err != nil {
			f := &failure{at: i, err: err, log: w.story()}
			if r.keep != "" {
				f.err = errors.Join(err, w.keepLog(r.keep))
			}
			return res, errors.Join(f, w.close())
		}
		res.done++
		res.counts[s.Action]++
		if took := time.Since(from); took > res.slowest {
			res.slowest, res.slow = took, s
		}
	}
	res.took = time.Since(began)
	err = w.settle(ctx)
	if err != nil {
		err = &failure{at: last, err: err, log: w.story()}
	}
	if r.keep != "" {
		err = errors.Join(err, w.keepLog(r.keep))
	}
	return res, errors.Join(err, w.close())
}

// slowStep is how long a step may take before the lines of -v say what it waited for.
const slowStep = 3 * time.Second

// progressEvery is how often a run prints how many steps are done.
const progressEvery = 30 * time.Second

// slowest is how many times the limit a run may take that has not done the least yet: a
// slow machine needs longer, and in the end it is too slow.
const slowest = 6

// over reports whether no further step begins after some time, in which so many were done.
func (r *runner) over(took time.Duration, done int) bool {
	limit := r.limit
	if done < r.least {
		limit *= slowest
	}
	return limit > 0 && took > limit
}

// perform takes one step, and checks what must hold after it.
func (w *world) perform(ctx context.Context, s step) error {
	a := find(s.Action)
	if a == nil {
		return fmt.Errorf("there is no action %q", s.Action)
	}
	err := a.run(w, ctx, s.Arg)
	if err != nil {
		return err
	}
	w.rushed = true
	if s.Rush {
		return w.now(ctx)
	}
	return w.settle(ctx)
}

// story is what happened last, for a report. The agents end with their stacks.
func (w *world) story() string {
	for _, p := range w.agents {
		if p.signal(syscall.SIGQUIT) == nil {
			<-p.done
		}
	}
	w.watch.mu.Lock()
	recent := slices.Clone(w.watch.recent)
	w.watch.mu.Unlock()
	text, err := os.ReadFile(w.log.Name())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "SIGQUIT") {
			lines = lines[:i]
			break
		}
	}
	lines = lines[max(0, len(lines)-60):]
	return w.misdeed() + "what kubelet saw last:\n" + strings.Join(recent, "\n") + "\nkubelet's log:\n" + w.kubelet.Log() + "\nthe agents' log:\n" + strings.Join(lines, "\n")
}

// keepLog copies the agents' log.
func (w *world) keepLog(path string) error {
	text, err := os.ReadFile(w.log.Name())
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}
