package supervisor

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/proto/backendplugin"
)

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func testTiming() *Timing {
	timing := Timing{
		Backoff: time.Second, BackoffLimit: 5 * time.Second, Failures: 4, Window: time.Minute,
		Quarantine: 2 * time.Minute, QuarantineLimit: 5 * time.Minute,
	}.withDefaults()
	return &timing
}

// Verifies the pauses after failures at given times, and what opens the breaker.
func TestBreaker(t *testing.T) {
	type failure struct {
		at     time.Duration
		weight int
		stable bool // a stable run came before
	}
	type outcome struct {
		Pause       time.Duration
		Quarantined bool
	}
	tests := map[string]struct {
		failures []failure
		want     []outcome
	}{
		"doubles, opens, stays open, closes": {
			failures: []failure{{0, 1, false}, {1 * time.Second, 1, false}, {3 * time.Second, 1, false}, {7 * time.Second, 1, false},
				{200 * time.Second, 1, false}, {500 * time.Second, 1, false}, {1000 * time.Second, 1, true}},
			want: []outcome{{time.Second, false}, {2 * time.Second, false}, {4 * time.Second, false}, {2 * time.Minute, true},
				{4 * time.Minute, true}, {5 * time.Minute, true}, {time.Second, false}},
		},
		"outside the window": {
			failures: []failure{{0, 1, false}, {50 * time.Second, 1, false}, {100 * time.Second, 1, false}, {150 * time.Second, 1, false}},
			want:     []outcome{{time.Second, false}, {2 * time.Second, false}, {4 * time.Second, false}, {5 * time.Second, false}},
		},
		"grave ones": {
			failures: []failure{{0, 2, false}, {time.Second, 2, false}},
			want:     []outcome{{time.Second, false}, {2 * time.Minute, true}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := breaker{timing: testTiming()}
			if b.grave() != 2 {
				t.Fatalf("grave = %d", b.grave())
			}
			var got []outcome
			for _, f := range test.failures {
				if f.stable {
					b.stable()
				}
				pause, quarantined := b.fail(time.Unix(1000, 0).Add(f.at), f.weight)
				got = append(got, outcome{pause, quarantined})
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("pauses (-want +got):\n%s", diff)
			}
		})
	}
}

// Verifies which errors of a start are a lack of resources, not the program's failure.
func TestShortage(t *testing.T) {
	for cause, want := range map[error]bool{
		syscall.EMFILE: true, syscall.EAGAIN: true, syscall.ENOMEM: true, syscall.ENOSPC: true,
		syscall.ENOENT: false, syscall.ENOEXEC: false, syscall.EACCES: false, syscall.ETXTBSY: false,
	} {
		err := StartError("/backend", &os.PathError{Op: "fork/exec", Path: "/backend", Err: cause})
		if got := isShortage(fail(unavailable, "%w", err)); got != want {
			t.Errorf("%v: %v, want %v", cause, got, want)
		}
	}
}

// Verifies that no second process starts while one hangs in the kernel, and that the backend
// can be removed nevertheless.
func TestStuckProcess(t *testing.T) {
	b := newBackend(&Supervisor{timing: *testTiming(), log: slog.New(slog.DiscardHandler)}, "b")
	i := &instance{backend: b}
	i.ctx, i.cancel = context.WithCancelCause(t.Context())
	b.drop(i, errReplaced)
	if b.stopAll(ErrRemoved) {
		t.Error("the backend would end before its process")
	}
	b.handle(stuckEvent{i})
	if !b.blocked() {
		t.Error("a second process would start while one hangs in the kernel")
	}
	if !strings.Contains(b.lastError, "has not ended after SIGKILL") {
		t.Errorf("last error = %q", b.lastError)
	}
	if !b.stopAll(ErrRemoved) {
		t.Error("the backend would never end")
	}
	b.handle(goneEvent{i})
	if b.blocked() {
		t.Error("a start is still blocked")
	}
}

// Verifies that a backend that reports as fast as it can is slowed down, the more the larger
// its messages are, and that each delayed message is counted.
func TestMessageRate(t *testing.T) {
	const messageRate, messageBurst = backendplugin.MessageRate, backendplugin.MessageBurst
	for name, c := range map[string]struct {
		size, want int
	}{
		"small":    {0, messageBurst + 10*messageRate},
		"an MiB":   {1 << 20, (messageBurst + 10*messageRate) * 2 / 3},
		"greatest": {8 << 20, (messageBurst + 10*messageRate) / 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				messages, late := make(chan message), atomic.Int64{}
				in := &intake{
					next: func() (received, error) { return received{size: c.size}, nil }, to: messages,
					late: func() { late.Add(1) },
				}
				go in.run(ctx)
				count := 0
				for ctx.Err() == nil {
					select {
					case <-messages:
						count++
					case <-ctx.Done():
					}
				}
				if count < c.want-2 || count > c.want+2 {
					t.Errorf("%d messages in 10 s, want about %d", count, c.want)
				}
				if free := count - int(late.Load()); free > messageBurst {
					t.Errorf("%d of %d messages did not wait", free, count)
				}
			})
		})
	}
}

// Verifies that an excess is counted from its begin until the process has stayed within the
// limit for excessMemory.
func TestExcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e excess
		if n, _ := e.now(); n != 0 {
			t.Errorf("%d counted of nothing", n)
		}
		began := time.Now().UTC().Format(time.RFC3339)
		for i := range 3 {
			if first := e.add(5); first != (i == 0) {
				t.Errorf("time %d is the first: %v", i, first)
			}
			<-time.After(excessMemory)
		}
		if n, since := e.now(); n != 15 || since != began {
			t.Errorf("%d since %s, want 15 since %s", n, since, began)
		}
		<-time.After(time.Second)
		if n, _ := e.now(); n != 0 {
			t.Errorf("%d counted, although it is cleared", n)
		}
		if !e.add(1) {
			t.Error("what comes after a while is not the first")
		}
		if n, _ := e.now(); n != 1 {
			t.Errorf("%d counted, want 1", n)
		}
	})
}

// Verifies that a late start is the node's fault only if the process waited for a processor and did not use one, and then is
// not counted as a crash.
func TestStarved(t *testing.T) {
	for name, tc := range map[string]struct {
		now  times
		want bool
	}{
		"waits":              {times{ran: 2 * time.Second, waited: 9 * time.Second}, true},
		"hangs":              {times{ran: 2 * time.Second, waited: time.Second}, false},
		"spins":              {times{ran: 9 * time.Second, waited: 9 * time.Second}, false},
		"waited before that": {times{ran: 2 * time.Second, waited: 4 * time.Second}, false},
	} {
		if got := tc.now.starved(times{ran: time.Second, waited: time.Second}, 10*time.Second); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !isShortage(fail(crashed, "it is late: %w", errStarved)) {
		t.Error("it counts as a crash")
	}
}

func TestParseLine(t *testing.T) {
	tests := map[string]struct {
		line    string
		level   slog.Level
		message string
		raw     bool
	}{
		"hclog":         {`{"@level":"error","@message":"lost","@module":"m"}`, slog.LevelError, "lost", false},
		"no level":      {`{"@message":"x"}`, slog.LevelDebug, "x", false},
		"text":          {"plain\x1b[31m text", slog.LevelDebug, "plain?[31m text", true},
		"other JSON":    {`{"a":1}`, slog.LevelDebug, `{"a":1}`, true},
		"wrong types":   {`{"@message":5,"@level":{}}`, slog.LevelDebug, `{"@message":5,"@level":{}}`, true},
		"level's type":  {`{"@message":"x","@level":5}`, slog.LevelDebug, "x", false},
		"not quite":     {`{"@message":"x"`, slog.LevelDebug, `{"@message":"x"`, true},
		"several lines": {`{"@message":"x\ny\u0000"}`, slog.LevelDebug, "x y?", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := parseLine([]byte(test.line))
			if got.level != test.level || got.message != test.message || got.raw != test.raw {
				t.Errorf("parsed %+v, want %+v", got, test)
			}
		})
	}
}

// Verifies that a stream is read at no more than its rate, whatever the size of its parts,
// and that its end is not delayed.
func TestThrottle(t *testing.T) {
	for name, part := range map[string]int{"lines": 1 << 10, "more than a second's": 2 * readRate} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				limit, began := newThrottle(ctx), time.Now()
				for range 5 * readRate / min(part, readRate) {
					limit.take(part)
				}
				if took := time.Since(began).Round(time.Second); took != 4*time.Second {
					t.Errorf("five seconds' worth took %v", took)
				}
				end()
				began = time.Now()
				limit.take(readRate)
				if took := time.Since(began); took != 0 {
					t.Errorf("after the end it took %v", took)
				}
			})
		})
	}
}
