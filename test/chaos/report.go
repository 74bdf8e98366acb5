package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

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

// manySteps is how many steps a run must have before an action that was never done in it
// is no chance any more, but one that can't be done.
const manySteps = 1000

// complete is the exit status of a run in which some action was never done, though it was
// long enough for all of them. Such a run has failed if nothing may be left out; steps
// that are given may be of any kinds.
func complete(out io.Writer, res result, drawn, strict bool) int {
	if !drawn || res.done < manySteps {
		return 0
	}
	var never []string
	for _, a := range actions() {
		if res.counts[a.name] == 0 {
			never = append(never, a.name)
		}
	}
	if never == nil {
		return 0
	}
	verdict, code := "", 0
	if strict {
		verdict, code = "FAILED, as nothing may be left out: ", 1
	}
	_, _ = fmt.Fprintf(out, "%snever done in %d steps: %s\n", verdict, res.done, strings.Join(never, ", "))
	return code
}

// shrinkFor is how long shrinking a list may take.
const shrinkFor = 30 * time.Minute

// report writes the steps that failed to a file, shrinks them, and prints how to run both again.
func report(ctx context.Context, r *runner, steps []step, f *failure, o *options) {
	r.verbose, r.keep, r.least = false, "", 0
	file := filepath.Join(os.TempDir(), fmt.Sprintf("chaos-failed-%d-%d", o.seed, os.Getpid()))
	fmt.Fprintf(r.out, "failed: %v\n", f)
	again(r, "steps", file, steps)
	if o.shrinks == 0 || f.name() == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, shrinkFor)
	defer cancel()
	short := shrink(steps, o.shrinks, func(try []step) bool {
		if ctx.Err() != nil {
			return false
		}
		var second *failure
		_, err := r.run(ctx, try)
		failed := errors.As(err, &second) && second.name() == f.name()
		fmt.Fprintf(r.out, "%d steps: the same failure: %v\n", len(try), failed)
		return failed
	})
	if len(short) == len(steps) {
		fmt.Fprintln(r.out, "no shorter list was found: perhaps a matter of timing")
	}
	fmt.Fprintf(r.out, "shrunk to %d steps: make %s REPLAY='%s'\n", len(short), r.target(), joinSteps(short))
	again(r, "shrunk", file+".short", short)
}

// again writes steps to a file, one a line, and prints how to go through them again.
func again(r *runner, what, file string, steps []step) {
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(joinSteps(steps), ",", "\n")+"\n"), 0o600); err != nil {
		_, _ = fmt.Fprintf(r.out, "%s cannot be written to a file: %v\n", what, err)
		return
	}
	_, _ = fmt.Fprintf(r.out, "%s, from a file: make %s REPLAY=@%s\n", what, r.target(), file)
}

// target is that of the Makefile which runs such nodes.
func (r *runner) target() string {
	if r.kubelet == "" {
		return "chaos"
	}
	return "chaos-kubelet KUBELET=" + strings.TrimPrefix(filepath.Base(r.kubelet), "kubelet-")
}

func printResult(out io.Writer, res result) {
	fmt.Fprintf(out, "%d steps in %v, %d more had nothing to do; the slowest was %s with %v\n",
		res.done, res.took.Round(time.Millisecond), res.skipped, res.slow, res.slowest.Round(time.Millisecond))
	for _, name := range slices.Sorted(maps.Keys(res.counts)) {
		fmt.Fprintf(out, "  %4d %s\n", res.counts[name], name)
	}
}

func printTables(out io.Writer) {
	for _, a := range actions() {
		fmt.Fprintf(out, "%-22s %2d  %s\n", a.name, a.weight, a.what)
	}
	fmt.Fprintln(out)
	for _, i := range invariants() {
		fmt.Fprintf(out, "%-18s %s\n", i.name, i.sentence)
	}
}
