package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
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

// Verifies that each kind of fault of a vendor's device is known, survives the backend and
// the agent, and ends as the model says; that devices that are unplugged come back; and
// that a clock which is set is no matter to anybody.
func TestVendors(t *testing.T) {
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
	if len(w.m.vendors) != 3 {
		t.Fatalf("there are %d backends of vendors, want 3", len(w.m.vendors))
	}
	do := func(what string, err error) {
		t.Helper()
		if err == nil {
			err = w.settle(t.Context())
		}
		if err != nil {
			t.Fatalf("%s: %v\n%s", what, err, w.story())
		}
	}
	for _, b := range w.m.vendors {
		for i, d := range b.devices {
			// The second device of a backend has what the first has.
			if i == 1 && len(b.devices[0].kinds) == len(d.kinds) {
				continue
			}
			only := func(_ *backend, of *device) bool { return of == d }
			for _, kind := range d.kinds {
				do("a fault by "+string(kind)+" of "+d.id, w.change(t.Context(), 0, only, func(d *device) { d.entry = entry{fault: kind} }))
				if resource, _ := w.m.resourceOf(b); w.kubelet.Seen() == nil || !slices.Contains(w.kubelet.Seen().Resources[resource].Unhealthy, d.id) {
					t.Errorf("%s is not unhealthy at kubelet with a fault by %s", d.id, kind)
				}
				do("kill -9 of "+b.name, w.kill(t.Context(), b, w.pid(t.Context(), b)))
				do("the end of it", w.change(t.Context(), 0, only, func(d *device) { d.entry.fault = "" }))
			}
			if !d.fixed {
				do("unplugged", w.change(t.Context(), 0, only, func(d *device) { d.entry.unplugged = true }))
				do("plugged in", w.change(t.Context(), 0, only, func(d *device) { d.entry.unplugged = false }))
			}
			if b.evidence {
				do("recovered", w.change(t.Context(), 0, only, func(d *device) { d.entry.recovered = true }))
			}
		}
	}
	do("another agent", w.killAgent(t.Context(), 1))
	for arg := range 2 {
		if err := w.stepClock(t.Context(), arg); !errors.Is(err, errSkip) {
			do("the clock", err)
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

// Verifies that the limit cuts a run short that has done the least, and that a run which has
// not may take longer, but not for ever.
func TestOver(t *testing.T) {
	for _, c := range []struct {
		limit, took time.Duration
		least, done int
		want        bool
	}{
		{0, time.Hour, 0, 0, false}, {0, time.Hour, 150, 0, false},
		{time.Minute, time.Minute, 150, 150, false}, {time.Minute, time.Minute + 1, 150, 150, true}, {time.Minute, time.Minute + 1, 0, 0, true},
		{time.Minute, slowest * time.Minute, 150, 149, false}, {time.Minute, slowest*time.Minute + 1, 150, 149, true},
	} {
		if got := (&runner{limit: c.limit, least: c.least}).over(c.took, c.done); got != c.want {
			t.Errorf("%+v: over is %v", c, got)
		}
	}
}

// Verifies that each thing that is left out is told with its own cause, and nothing else.
func TestIncomplete(t *testing.T) {
	mounts, program := "fill-disk and fill-rest cannot be done: not allowed", "programs/accelmux-backend-amd is not built"
	for _, c := range []struct {
		why     string
		unbuilt []string
		mounts  bool
		program bool
	}{
		{"", nil, false, false},
		{"not allowed", nil, true, false},
		{"", []string{"accelmux-backend-amd"}, false, true},
		{"not allowed", []string{"accelmux-backend-amd"}, true, true},
	} {
		text := ""
		if err := (&runner{programs: "programs", unbuilt: c.unbuilt}).incomplete(c.why); err != nil {
			text = err.Error()
		}
		if strings.Contains(text, mounts) != c.mounts || strings.Contains(text, program) != c.program || !c.mounts && !c.program && text != "" {
			t.Errorf("mounts: %q, not built: %v: %q", c.why, c.unbuilt, text)
		}
	}
}

// Verifies that a runner knows which programs are not built.
func TestUnbuilt(t *testing.T) {
	var out strings.Builder
	r := &runner{programs: t.TempDir(), out: &out}
	remove, err := r.build(t.Context())
	defer remove()
	if err != nil || len(r.unbuilt) != 3 || strings.Count(out.String(), "left out: ") != 3 {
		t.Errorf("not built are %v, said is %q, %v", r.unbuilt, out.String(), err)
	}
}

// Verifies that a list is shrunk to the steps that matter, within the runs allowed.
func TestShrink(t *testing.T) {
	steps := draw(3, 200)
	needed := []step{steps[20], steps[111], steps[199]}
	runs := 0
	fails := func(try []step) bool {
		runs++
		return !slices.ContainsFunc(needed, func(s step) bool { return !slices.Contains(try, s) })
	}
	if got := shrink(steps, 1000, fails); !reflect.DeepEqual(got, needed) {
		t.Errorf("shrunk to %v, want %v", got, needed)
	}
	if runs > 150 {
		t.Errorf("%d runs for a list of 200", runs)
	}
	// Of a long list the end alone is tried first.
	steps, runs = draw(3, 5000), 0
	needed = steps[4960:4963:4963]
	longest := 0
	got := shrink(steps, 1000, func(try []step) bool {
		longest = max(longest, len(try))
		return fails(try)
	})
	if !reflect.DeepEqual(got, needed) || longest > 100 {
		t.Errorf("shrunk to %v by runs of up to %d steps, want %v", got, longest, needed)
	}
	runs = 0
	if got := shrink(steps, 5, fails); runs > 5 || !fails(got) {
		t.Errorf("%d runs of 5, and the list that is left does not fail", runs)
	}
}

// Verifies that a wait ends with its context.
func TestAwaitEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("told to"))
	err := (&world{bound: time.Minute}).await(ctx, serves, "nothing", func() bool { return false })
	if err == nil || !strings.Contains(err.Error(), "told to") {
		t.Errorf("the error is %v", err)
	}
}
