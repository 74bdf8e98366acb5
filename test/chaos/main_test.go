package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/test/programs"
)

// built are the programs, and this one.
var built = programs.Shared{Args: []string{"-tags", "chaos", "../../cmd/...", "."}}

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
	if err := built.Remove(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// newRunner is one for tests, without mounts: they would be seen by the whole machine.
func newRunner(t *testing.T) *runner {
	t.Helper()
	bin := built.Dir(t)
	r := &runner{programs: bin, agent: bin + "/accelmux", bound: time.Minute, out: os.Stderr}
	remove, err := r.build(t.Context())
	t.Cleanup(remove)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Verifies that a node goes through one of most kinds of steps, and that nothing of it
// is left; and that it tells how far it is.
func TestRun(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	var told strings.Builder
	r.out, r.every = &told, 10*time.Millisecond
	steps, err := parseSteps("allocate/0! fault/1 kill-backend/0 kill-agent/1 clear/0 take-over/0 replicas/1! free/0 " +
		"restart-kubelet/0! start-kubelet/0 unplug/0 delete-cdi/0 damage-state/0 newer-state/0 lose-kubelet-dir/0 stray-agent/0 stray-agent/1 replug/0 reboot/0 allocate/9")
	if err != nil {
		t.Fatal(err)
	}
	res, err := r.run(t.Context(), steps)
	var f *failure
	if errors.As(err, &f) {
		t.Fatalf("%v\n%s", err, f.log)
	}
	if err != nil || res.skipped != 1 {
		t.Fatalf("%d steps were skipped, and only the start of a kubelet that runs should be: %v", res.skipped, err)
	}
	done := slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return s.Action == "start-kubelet" })
	if !slices.Equal(res.taken, done) {
		t.Errorf("steps were taken that were skipped, or the other way: %v", res.taken)
	}
	for _, want := range []string{"0 of 20 steps are done, 0 more had nothing to do; the start began", "3 of 20 steps are done, 0 more had nothing to do; kill-agent/1 began"} {
		if !strings.Contains(told.String(), want) {
			t.Errorf("%q is not told", want)
		}
	}
}

// Verifies that a run which breaks an invariant ends with its name and the step: here
// a fault is hidden behind the model's back.
func TestRunFails(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	w, err := newWorld(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := w.replace("beta.yaml", "devices: {b-0-p0: {unplugged: true}}\n"); err != nil {
		t.Fatal(err)
	}
	err = w.await(t.Context(), advertised, "kubelet does not hear of it", func() bool { return len(w.kubelet.Seen().Resources[partName].Healthy) == 3 })
	if err != nil {
		t.Fatal(err)
	}
	w.bound = 5 * time.Second // it is not found before
	var broken *violation
	if err := w.settle(t.Context()); !errors.As(err, &broken) || broken.name != othersUntouched && broken.name != advertised {
		t.Errorf("the error is %v, want that of a device that is missing", err)
	}
}

// Verifies that a draw is that of its seed, that fewer steps are the first of more, and
// that steps survive being written down.
func TestDraw(t *testing.T) {
	steps := draw(7, 500)
	if !slices.Equal(steps[:100], draw(7, 100)) || slices.Equal(steps, draw(8, 500)) {
		t.Error("the draw does not come from the seed alone")
	}
	read, err := parseSteps(joinSteps(steps))
	if err != nil || !slices.Equal(read, steps) {
		t.Errorf("read back as %v, %v", read, err)
	}
	drawn := map[string]bool{}
	for _, s := range draw(1, 5000) {
		drawn[s.Action] = true
		if s.Rush && !find(s.Action).rush {
			t.Errorf("%s is drawn with a rush", s)
		}
	}
	for _, a := range actions() {
		if !drawn[a.name] {
			t.Errorf("%s is not drawn in 5,000 steps", a.name)
		}
	}
	for _, bad := range []string{"nothing/1", "fault", "fault/x", "fault/-1", "fault/65536", "fault/1?"} {
		if _, err := parseSteps(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// Verifies that a run which was cut short passes only with the least number of steps, and
// that it says so.
func TestEnough(t *testing.T) {
	for _, c := range []struct{ done, most, least, code int }{
		{300, 300, 0, 0}, {299, 300, 0, 1}, {150, 300, 150, 0}, {149, 300, 150, 1}, {3, 0, 0, 0},
	} {
		var out strings.Builder
		if code := enough(&out, result{done: c.done}, c.most, c.least); code != c.code {
			t.Errorf("%d of %d steps, at least %d: exit status %d", c.done, c.most, c.least, code)
		}
		if said := strings.Contains(out.String(), fmt.Sprintf("%d of %d", c.done, c.most)); said != (c.done < c.most) {
			t.Errorf("%d of %d steps: %q", c.done, c.most, out.String())
		}
	}
}
