package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/accelmux/accelmux/test/programs"
)

var (
	built = programs.Shared{Args: []string{"../../cmd/..."}}
	// agent is the agent with the intervals of chaos.
	agent = programs.Shared{Args: []string{programs.Tags("chaos"), "../../cmd/accelmux"}}
)

// The test binary is the hostile backend, too, as the program is.
func TestMain(m *testing.M) {
	if isBackend() {
		if err := serveBackend(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if err := errors.Join(built.Remove(), agent.Remove()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// newRunner is one for tests, without mounts: they would be seen by the whole machine.
func newRunner(t *testing.T) *runner {
	t.Helper()
	r := &runner{programs: built.Dir(t), agent: filepath.Join(agent.Dir(t), "accelmux"), bound: time.Minute, out: os.Stderr}
	remove, err := r.build(t.Context())
	t.Cleanup(remove)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Verifies that a node goes through one of most kinds of steps: test-race-suites runs it with the race
// detector.
func TestRun(t *testing.T) {
	t.Parallel()
	steps, err := parseSteps("allocate/0! fault/1 kill-backend/0 kill-agent/1 clear/0 take-over/0 replicas/1! free/0 restart-kubelet/0! " +
		"start-kubelet/0 unplug/0 delete-cdi/0 damage-state/0 newer-state/0 lose-kubelet-dir/0 stray-agent/0 stray-agent/1 replug/0 reboot/0 allocate/9 " +
		"claim/8588 share-claim/0 end-claim/1 end-claim/0 reuse-claim/0 end-claim/0 claim/42 claim/60 end-claim/0 " +
		"claim/1! share-claim/0 delete-slices/0 claim/0 lose-claim/1 damage-claim/0 end-claim/0 switch-api/0 allocate/5 switch-api/0 end-claim/0 end-claim/1")
	if err != nil {
		t.Fatal(err)
	}
	res, err := newRunner(t).run(t.Context(), steps)
	var f *failure
	if errors.As(err, &f) {
		t.Fatalf("%v\n%s", err, f.log)
	}
	if err != nil || res.skipped != 1 {
		t.Fatalf("%d steps were skipped, and only the start of a kubelet that runs should be: %v", res.skipped, err)
	}
}
