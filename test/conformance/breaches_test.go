package conformance

import (
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/accelmux/accelmux/cmd/accelmux/conformance"
	"github.com/accelmux/accelmux/test/host"
	"github.com/accelmux/accelmux/test/hostile"
)

// abreast is how many programs are checked at a time: a check waits most of its time.
const abreast = 16

// short is for programs that break a rule by what they don't do: all limits are waited for. What a program must do
// before it breaks its rule has limits that are far above the time that it takes.
var short = conformance.Timing{
	Start: time.Minute, Configure: time.Minute, Inventory: 10 * time.Second, Heartbeat: 300 * time.Millisecond, Sample: 200 * time.Millisecond,
	Abandon: time.Millisecond, Change: 300 * time.Millisecond, Hang: time.Second, Orphan: time.Second,
}

// Verifies that each rule is failed by a program that breaks it, and that the same program
// passes without its misdeed.
func TestBreaches(t *testing.T) {
	t.Parallel()
	program := filepath.Join(built.Dir(t), "hostilebackend")
	broken := map[string]bool{}
	lanes, run := make(chan struct{}, abreast), sync.WaitGroup{}
	try := func(name string, options conformance.Options, judge func(*testing.T, []conformance.Result)) {
		options.Program, options.Exercise = program, true
		lanes <- struct{}{}
		run.Go(func() {
			defer func() { <-lanes }()
			t.Run(name, func(t *testing.T) {
				report, err := conformance.Check(t.Context(), options)
				if err != nil {
					t.Fatal(err)
				}
				judge(t, report.Results)
			})
		})
	}
	breach := func(rule, what string, options conformance.Options) {
		broken[rule], options.Timing = true, short
		if rule == "heartbeats-from-loop" { // its heartbeats must not be late, and it must read a file in time
			options.Timing.Heartbeat, options.Timing.Hang = 3*time.Second, 10*time.Second
		}
		try(rule, options, func(t *testing.T, results []conformance.Result) {
			i := slices.IndexFunc(results, func(r conformance.Result) bool { return r.ID == rule })
			if i < 0 || results[i].Outcome != conformance.Fail || results[i].Why == "" {
				t.Errorf("a backend that %s: %+v", what, results)
			}
		})
	}
	for _, m := range hostile.AllBreaches() {
		options := conformance.Options{Env: map[string]string{hostile.MisdeedEnv: m.Name}}
		switch m.Rule {
		case "heartbeats-from-loop":
			options.HostPaths.Sysfs = t.TempDir()
		case "manifest-suffices":
			if _, err := ll.LandlockGetABIVersion(); err != nil {
				host.Lacks(t, "files are restricted by Landlock: %v", err)
			}
		case "without-hardware":
			options.HostPaths.Sysfs = "/proc/self" // not empty
		}
		breach(m.Rule, m.What, options)
	}
	breach("change-reported", "does not see a change", conformance.Options{HardwareChange: "true"})
	limits := patient
	limits.Hang = time.Second
	try("none", conformance.Options{Timing: limits}, func(t *testing.T, results []conformance.Result) {
		for _, r := range results {
			if !broken[r.ID] {
				t.Errorf("no program breaks the rule %s", r.ID)
			}
			if r.Outcome == conformance.Fail {
				t.Errorf("the hostile backend fails %s without a misdeed: %s", r.ID, r.Why)
			}
		}
	})
	run.Wait()
}
