package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/accelmux/accelmux/test/host"
)

func main() {
	if isBackend() {
		if err := serveBackend(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	why := ""
	if os.Getenv(ownMounts) == "" {
		code, done, reason := inOwnMounts()
		if done {
			os.Exit(code)
		}
		why = reason
	}
	os.Exit(chaos(why))
}

// drawnForOne is how many steps are drawn for each that is taken: a third or so have
// nothing to do.
const drawnForOne = 4

// chaos is main without the end of the process; why says why there are no mounts.
func chaos(why string) int {
	seed := flag.Uint64("seed", 0, "`number` that the steps are drawn from; 0: one of the clock, which is printed")
	count := flag.Int("steps", 300, "`number` of steps; skipped ones do not count")
	replay := flag.String("replay", "", "`steps` to go through instead of drawn ones, as a run prints them")
	programs := flag.String("bin", "bin", "`dir`ectory of the built backends, and in chaos/ of the agent")
	agent := flag.String("agent", "", "`program` of the agent (default: that in -bin, which has shorter intervals than accelmux; with that, give a -bound of 10m)")
	kubelet := flag.String("kubelet", "", "`program` of a real kubelet's device manager, as test/kubelet/manager/build.sh builds it (default: the stand-in)")
	bound := flag.Duration("bound", 30*time.Second, "how long anything may take; generous on a loaded machine")
	shrinks := flag.Int("shrink", 60, "how many `runs` may be spent on a shorter list that fails, too; 0: none")
	verbose := flag.Bool("v", false, "print each step")
	every := flag.Duration("progress", 30*time.Second, "how often a line says how far the run is; 0: never")
	keep := flag.String("log", "", "`file` for the agents' log")
	limit := flag.Duration("limit", 0, "`time` after which no further step begins; 0: none")
	least := flag.Int("least", 0, "`number` of steps without which a run that -limit cut short has failed; 0: all")
	list := flag.Bool("list", false, "print the actions and the invariants, and do nothing")
	flag.Parse()
	if *list {
		printTables()
		return 0
	}
	if flag.NArg() > 0 || *count < 1 {
		fmt.Fprintf(os.Stderr, "give flags only, and at least 1 step, not %d steps and %q; -help says which flags there are\n", *count, flag.Args())
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if *seed == 0 {
		*seed = uint64(time.Now().Unix())
	}
	if *agent == "" {
		*agent = filepath.Join(*programs, "chaos", "accelmux")
	}
	r := &runner{programs: *programs, agent: *agent, kubelet: *kubelet, bound: *bound, mounts: why == "", most: *count, limit: *limit, out: os.Stdout, verbose: *verbose, every: *every, keep: *keep}
	remove, err := r.build(ctx)
	defer remove()
	if err == nil && os.Getenv(host.StrictEnv) == "1" {
		err = r.incomplete(why)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	steps := draw(*seed, *count*drawnForOne)
	if *replay != "" {
		if steps, err = parseSteps(*replay); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		fmt.Printf("%d given steps\n", len(steps))
		r.most = 0
	} else {
		fmt.Printf("SEED=%d STEPS=%d\n", *seed, *count)
		r.seed = *seed
	}
	if why != "" {
		fmt.Printf("skipped: lock-cdi and fill-disk, which need root (%s)\n", why)
	}
	res, err := r.run(ctx, steps)
	if err == nil {
		printResult(res)
		return enough(os.Stderr, res, r.most, *least)
	}
	fmt.Fprintln(os.Stderr, err)
	var f *failure
	if errors.As(err, &f) && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, f.log)
		report(ctx, r, steps[:f.at+1], f, *shrinks)
	}
	return 1
}

// incomplete says what would be left out of the run, and why, if anything; why is that of
// the mounts.
func (r *runner) incomplete(why string) error {
	var missing []error
	if why != "" {
		missing = append(missing, fmt.Errorf("lock-cdi and fill-disk cannot be done: %s; run as root, in a container with CAP_SYS_ADMIN", why))
	}
	for _, program := range r.unbuilt {
		missing = append(missing, fmt.Errorf("%s is not built; run make build", filepath.Join(r.programs, program)))
	}
	if missing == nil {
		return nil
	}
	return fmt.Errorf("with %s=1 nothing may be left out: %w", host.StrictEnv, errors.Join(missing...))
}

// enough is the exit status of a run without a failure: it has passed if it took all of
// most steps, or the least that it may be cut to; 0 for most of them.
func enough(out io.Writer, res result, most, least int) int {
	if res.done >= most {
		return 0
	}
	if least == 0 {
		least = most
	}
	verdict, code := "enough", 0
	if res.done < least {
		verdict, code = "FAILED", 1
	}
	_, _ = fmt.Fprintf(out, "CUT SHORT: %d of %d steps were taken in %v, and %d must be: %s\n", res.done, most, res.took.Round(time.Second), least, verdict)
	return code
}

// report shrinks what failed and prints how to see it again.
func report(ctx context.Context, r *runner, steps []step, f *failure, runs int) {
	r.verbose, r.keep, r.seed = false, "", 0
	fmt.Printf("failed: %v\nsteps: make %s REPLAY='%s'\n", f, r.target(), joinSteps(steps))
	if runs == 0 || f.name() == "" {
		return
	}
	short := shrink(steps, runs, func(try []step) bool {
		if ctx.Err() != nil {
			return false
		}
		var again *failure
		_, err := r.run(ctx, try)
		failed := errors.As(err, &again) && again.name() == f.name()
		fmt.Printf("%d steps: %s\n", len(try), map[bool]string{true: "fails, too", false: "does not fail so"}[failed])
		return failed
	})
	if len(short) == len(steps) {
		fmt.Println("no shorter list was found: perhaps a matter of timing")
	}
	fmt.Printf("shrunk to %d steps: make %s REPLAY='%s'\n", len(short), r.target(), joinSteps(short))
}

// target is that of the Makefile which runs such nodes.
func (r *runner) target() string {
	if r.kubelet == "" {
		return "chaos"
	}
	return "chaos-kubelet KUBELET=" + strings.TrimPrefix(filepath.Base(r.kubelet), "kubelet-")
}

func printResult(res result) {
	fmt.Printf("%d steps in %v, %d more had nothing to do; the slowest was %s with %v\n",
		res.done, res.took.Round(time.Millisecond), res.skipped, res.slow, res.slowest.Round(time.Millisecond))
	for _, name := range slices.Sorted(maps.Keys(res.counts)) {
		fmt.Printf("  %4d %s\n", res.counts[name], name)
	}
}

func printTables() {
	for _, a := range actions() {
		fmt.Printf("%-22s %2d  %s\n", a.name, a.weight, a.what)
	}
	fmt.Println()
	for _, i := range invariants() {
		fmt.Printf("%-18s %s\n", i.name, i.sentence)
	}
}
