package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// options are those of the command line.
type options struct {
	seed  uint64
	count int
	given []step // to go through instead of drawn ones

	programs, agent, kubelet string

	bound, limit time.Duration
	least        int
	shrinks      int

	verbose, list bool
	keep          string
}

func parseOptions(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.Uint64Var(&o.seed, "seed", 0, "`number` that the steps are drawn from; 0: one of the clock, which is printed")
	flags.IntVar(&o.count, "steps", 300, "`number` of steps; skipped ones do not count")
	replay := flags.String("replay", "", "`steps` to go through instead of drawn ones, as a run prints them, or @FILE with them")
	flags.StringVar(&o.programs, "bin", "bin", "`dir`ectory of the built backends, and in chaos/ of the agent")
	flags.StringVar(&o.agent, "agent", "", "`program` of the agent (default: that in -bin, which has shorter intervals than accelmux; with that, give a -bound of 10m)")
	flags.StringVar(&o.kubelet, "kubelet", "", "`program` of a real kubelet's device manager, as test/kubelet/manager/build.sh builds it (default: the stand-in)")
	flags.DurationVar(&o.bound, "bound", 30*time.Second, "how long anything may take; generous on a loaded machine")
	flags.IntVar(&o.shrinks, "shrink", 60, "how many `runs` may be spent on a shorter list that fails, too; 0: none")
	flags.BoolVar(&o.verbose, "v", false, "print each step")
	flags.StringVar(&o.keep, "log", "", "`file` for the agents' log")
	flags.DurationVar(&o.limit, "limit", 0, "`time` after which no further step begins, once -least are done, or six times it is over; 0: none")
	flags.IntVar(&o.least, "least", 0, "`number` of steps without which a run that -limit cut short has failed; 0: all, and -limit is final")
	flags.BoolVar(&o.list, "list", false, "print the actions and the invariants, and do nothing")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	return o, o.complete(flags.Args(), *replay)
}

// complete checks the options, and fills in those that follow from others.
func (o *options) complete(args []string, replay string) (err error) {
	if len(args) > 0 || o.count < 1 {
		return fmt.Errorf("%d steps and arguments %q: want flags only, and at least 1 step; see -help", o.count, args)
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().Unix())
	}
	if o.agent == "" {
		o.agent = filepath.Join(o.programs, "chaos", "accelmux")
	}
	if replay == "" {
		return nil
	}
	if file, ok := strings.CutPrefix(replay, "@"); ok {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read the steps: %w", err)
		}
		replay = string(text)
	}
	if o.given, err = parseSteps(replay); err == nil && len(o.given) == 0 {
		err = errors.New("-replay has no steps")
	}
	return err
}

// runner runs by the options, and prints to standard output.
func (o *options) runner(mounts bool) *runner {
	return &runner{
		programs: o.programs, agent: o.agent, kubelet: o.kubelet, bound: o.bound, mounts: mounts,
		limit: o.limit, least: o.least, out: os.Stdout, verbose: o.verbose, keep: o.keep,
	}
}
