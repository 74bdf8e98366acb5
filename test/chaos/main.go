package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

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
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	out, errs := os.Stdout, os.Stderr
	o, err := parseOptions(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(errs, err)
		return 2
	case o.list:
		printTables(out)
		return 0
	}
	r := o.runner(why == "")
	remove, err := r.build(ctx)
	defer remove()
	if err == nil && strict() {
		err = r.incomplete(why)
	}
	if err != nil {
		fmt.Fprintln(errs, err)
		return 1
	}
	steps, drawn := o.given, len(o.given) == 0
	if drawn {
		steps, r.most = draw(o.seed, o.count*drawnForOne), o.count
		fmt.Fprintf(out, "SEED=%d STEPS=%d\n", o.seed, o.count)
	} else {
		fmt.Fprintf(out, "%d given steps\n", len(steps))
	}
	if why != "" {
		fmt.Fprintf(out, "skipped: %s, which need root (%s)\n", mounting, why)
	}
	res, err := r.run(ctx, steps)
	if err == nil {
		printResult(out, res)
		return max(enough(errs, res, r.most, o.least), complete(errs, res, drawn, strict()))
	}
	fmt.Fprintln(errs, err)
	var f *failure
	if errors.As(err, &f) && ctx.Err() == nil {
		fmt.Fprintln(errs, f.log)
		if len(res.taken) > 0 {
			report(ctx, r, res.taken, f, o)
		}
	}
	return 1
}

// strict reports whether what would be left out is a failure.
func strict() bool { return os.Getenv(host.StrictEnv) == "1" }

// mounting are the actions that need mounts.
const mounting = "lock-cdi, lock-state, lock-plugin-dir, fill-disk and fill-rest"

// incomplete is an error with what would be left out of the run; why is the reason for the
// mounts.
func (r *runner) incomplete(why string) error {
	var missing []error
	if why != "" {
		missing = append(missing, fmt.Errorf("%s cannot be done: %s; run as root, in a container with CAP_SYS_ADMIN", mounting, why))
	}
	for _, program := range r.unbuilt {
		missing = append(missing, fmt.Errorf("%s is not built; run make build", filepath.Join(r.programs, program)))
	}
	if missing == nil {
		return nil
	}
	return fmt.Errorf("with %s=1 nothing may be left out: %w", host.StrictEnv, errors.Join(missing...))
}
