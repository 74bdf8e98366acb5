package telemetry

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/supervisor"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

const ten = 10 * time.Second

func every(interval time.Duration, backends ...string) map[string]time.Duration {
	targets := map[string]time.Duration{}
	for _, name := range backends {
		targets[name] = interval
	}
	return targets
}

// Verifies that values are measured from the first request, which has an answer, until five
// minutes after the latest one, and again from the next one.
func TestOnlyOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, map[string]play{"b": counting})
		r.Apply(every(ten, "b"))
		pass(time.Hour)
		r.Apply(every(20*time.Second, "b"))
		r.Apply(every(ten, "b"))
		if opened, _ := r.streams("b"); opened != 0 {
			t.Fatalf("%d streams though nobody asked", opened)
		}
		if got := r.one(); got != 1 {
			t.Errorf("the first question got %v", got)
		}
		for range 4 {
			pass(4*time.Minute + 59*time.Second)
			r.one()
		}
		if opened, open := r.streams("b"); opened != 1 || open != 1 {
			t.Errorf("%d streams, %d of them open, want the one", opened, open)
		}
		pass(5*time.Minute + time.Second)
		if opened, open := r.streams("b"); opened != 1 || open != 0 {
			t.Errorf("%d streams, %d of them open, after 5 minutes without a question", opened, open)
		}
		if got := r.one(); got != 1 {
			t.Errorf("the first question after the pause got %v, which is an old value", got)
		}
	})
}

// Verifies that only the request that starts the streams waits, until all backends have
// answered, for at most a second.
func TestFirstQuestionWaits(t *testing.T) {
	late := func(ctx context.Context, interval time.Duration, take func(*backendv1.SampleResponse)) error {
		pass(300 * time.Millisecond)
		return counting(ctx, interval, take)
	}
	for name, c := range map[string]struct {
		plays map[string]play
		waits time.Duration
		shows int
	}{
		"answers late":   {map[string]play{"b": late}, 300 * time.Millisecond, 1},
		"never answers":  {map[string]play{"b": silent}, time.Second, 0},
		"fails":          {map[string]play{"b": failing}, 0, 0},
		"one of several": {map[string]play{"a": late, "b": silent, "c": failing, "d": counting}, time.Second, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, c.plays)
				targets := map[string]time.Duration{}
				for name := range c.plays {
					targets[name] = ten
				}
				r.Apply(targets)
				begun := time.Now()
				shown := r.Read(t.Context())
				if waited := time.Since(begun); waited != c.waits || len(shown) != c.shows {
					t.Errorf("waited %v, want %v; shown %+v, want %d", waited, c.waits, shown, c.shows)
				}
				begun = time.Now()
				r.Read(t.Context())
				if waited := time.Since(begun); waited != 0 {
					t.Errorf("the second question waited %v", waited)
				}
			})
		})
	}
}

// Verifies that a value is shown for three intervals, and that a stream without samples is
// restarted, with a problem until a sample is received.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, map[string]play{"b": once})
		r.Apply(every(ten, "b"))
		r.one()
		pass(29 * time.Second)
		r.one()
		r.will("b", silent)
		pass(time.Second + time.Millisecond)
		r.none("after three intervals")
		synctest.Wait()
		if why := r.Unmeasured()["b"]; !strings.Contains(why, "no sample was received for 30s") || len(r.Problems()) != 1 {
			t.Errorf("missing because %q, problems %v", why, r.Problems())
		}
		r.will("b", counting)
		pass(35 * time.Second)
		if got := r.one(); got < 1 || r.Unmeasured()["b"] != "" || len(r.Problems()) != 0 {
			t.Errorf("value %v, missing because %q, problems %v", got, r.Unmeasured()["b"], r.Problems())
		}
	})
}

// Verifies that a failing stream is restarted with increasing pauses, that this is logged
// once, and that other backends are not affected.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, map[string]play{"bad": failing, "b": counting})
		r.Apply(every(ten, "bad", "b"))
		r.one()
		for range 60 {
			pass(10 * time.Second)
			r.one()
		}
		// 1, 2, 4 ... 32 s, and then a minute, each up to a fifth shorter or longer.
		if opened, _ := r.streams("bad"); opened < 12 || opened > 19 {
			t.Errorf("%d streams in ten minutes, want about 15", opened)
		}
		if opened, _ := r.streams("b"); opened != 1 {
			t.Errorf("%d streams of the other backend", opened)
		}
		if n := strings.Count(r.log.String(), "broken"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, r.log.String())
		}
		if p := r.Problems(); len(p) != 1 || p[0].Backend != "bad" || !strings.Contains(p[0].Message, "the sensor is broken") {
			t.Errorf("problems %v", p)
		}
		r.Apply(every(ten, "b"))
		synctest.Wait()
		if p := r.Problems(); len(p) != 0 {
			t.Errorf("problems %v of a removed backend", p)
		}
	})
}

// Verifies that the stream of a backend that sends without a pause is ended after a few
// samples, and restarted after the backoff.
func TestFlood(t *testing.T) {
	var sent atomic.Int32
	flood := func(ctx context.Context, _ time.Duration, take func(*backendv1.SampleResponse)) error {
		for ctx.Err() == nil {
			sent.Add(1)
			take(response(gauge("d", "power_watts", 1)))
		}
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, map[string]play{"b": flood})
		r.Apply(every(ten, "b"))
		r.Read(t.Context())
		synctest.Wait()
		if why := r.Unmeasured()["b"]; sent.Load() > floodBurst+1 || !strings.Contains(fmt.Sprint(r.Problems()), "far more often") {
			t.Errorf("%d samples taken, missing because %q, problems %v", sent.Load(), why, r.Problems())
		}
		pass(4 * time.Minute)
		if opened, _ := r.streams("b"); opened > 12 {
			t.Errorf("%d streams in four minutes", opened)
		}
	})
}

// Verifies that another interval opens a new stream after the old one has ended.
func TestIntervalChange(t *testing.T) {
	var second atomic.Int64
	slow := func(ctx context.Context, interval time.Duration, take func(*backendv1.SampleResponse)) error {
		second.Store(int64(interval))
		defer pass(2 * time.Second)
		if interval == time.Second {
			pass(time.Second)
		}
		return counting(ctx, interval, take)
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, map[string]play{"b": slow})
		r.Apply(every(ten, "b"))
		r.one()
		pass(11 * time.Second)
		r.Apply(every(time.Second, "b"))
		synctest.Wait()
		if got := r.one(); got != 2 {
			t.Errorf("shown is %v while the stream changes, want the last value", got)
		}
		pass(6500 * time.Millisecond)
		if got := r.one(); got != 4 {
			t.Errorf("value %v after 3.5 s at the new interval, want the fourth", got)
		}
		if opened, _ := r.streams("b"); opened != 2 || second.Load() != int64(time.Second) {
			t.Errorf("%d streams, the last one every %v", opened, time.Duration(second.Load()))
		}
	})
}

// Verifies that no values of a backend are shown while it does not run, and that a stream is
// opened when it runs again.
func TestGone(t *testing.T) {
	dies := make(chan struct{})
	mortal := func(ctx context.Context, interval time.Duration, take func(*backendv1.SampleResponse)) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-dies:
			case <-ctx.Done():
			}
			cancel()
		}()
		if err := counting(ctx, interval, take); err != nil {
			return err
		}
		return supervisor.ErrNotRunning
	}
	synctest.Test(t, func(t *testing.T) {
		dies = make(chan struct{})
		r := newRig(t, map[string]play{"b": mortal})
		r.Apply(every(ten, "b"))
		r.one()
		close(dies)
		synctest.Wait()
		if p := r.Problems(); len(p) != 0 || r.log.Len() != 0 {
			t.Errorf("the end of a process is reported here, too: %v\n%s", p, r.log.String())
		}
		r.Apply(nil)
		r.none("of a removed backend")
		dies = make(chan struct{})
		pass(time.Minute)
		r.Apply(every(ten, "b"))
		synctest.Wait()
		if got := r.one(); got != 1 {
			t.Errorf("value %v of the next process", got)
		}
	})
}

// Verifies that values of a process are not shown after it was replaced.
func TestGoneAndBack(t *testing.T) {
	slow := func(ctx context.Context, interval time.Duration, take func(*backendv1.SampleResponse)) error {
		defer pass(2 * time.Second)
		return counting(ctx, interval, take)
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, map[string]play{"b": slow})
		r.Apply(every(ten, "b"))
		r.one()
		r.Apply(nil)
		synctest.Wait()
		r.Apply(every(ten, "b"))
		r.none("before the new process has sent")
		pass(3 * time.Second)
		r.one()
	})
}

// Verifies that a request does not wait before Run and after its end: in a standby agent, and
// in one that was replaced and still serves metrics.
func TestNobodyMeasures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		telemetry := New(Options{
			Owners: func() func(inventory.Key) (Owner, bool) { return nil },
			Sample: func(context.Context, string, time.Duration, func(*backendv1.SampleResponse)) error { return errBroken },
		})
		telemetry.Apply(every(ten, "b"))
		ask := func(when string) {
			t.Helper()
			begun := time.Now()
			telemetry.Read(t.Context())
			if waited := time.Since(begun); waited != 0 {
				t.Errorf("%s: waited %v", when, waited)
			}
		}
		ask("before")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := telemetry.Run(ctx); err != nil {
			t.Error(err)
		}
		ask("after")
	})
}
