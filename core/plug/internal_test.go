package plug

import (
	"context"
	"log/slog"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/accelmux/accelmux/proto/backendplugin"
)

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
				messages, late := make(chan Message), atomic.Int64{}
				s := &Stream{
					next: func() (received, error) { return received{size: c.size}, nil }, to: messages,
					late: func() { late.Add(1) },
				}
				go s.run(ctx)
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

// Verifies that a late start is the node's fault only if the process waited for a processor and did not use one.
func TestStarved(t *testing.T) {
	for name, tc := range map[string]struct {
		now  Times
		want bool
	}{
		"waits":              {Times{ran: 2 * time.Second, waited: 9 * time.Second}, true},
		"hangs":              {Times{ran: 2 * time.Second, waited: time.Second}, false},
		"spins":              {Times{ran: 9 * time.Second, waited: 9 * time.Second}, false},
		"waited before that": {Times{ran: 2 * time.Second, waited: 4 * time.Second}, false},
	} {
		if got := tc.now.starved(Times{ran: time.Second, waited: time.Second}, 10*time.Second); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
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

// Verifies that the fields of a backend's line are not those of the record itself.
func TestFieldNames(t *testing.T) {
	got := map[string]string{}
	for _, field := range parseLine([]byte(`{"@message":"x","msg":"forged","time":"1970","level":"error","source":"s","backend":"other","device":"a","a\nb":"c\nd"}`)).fields {
		got[field.Key] = field.Value.String()
	}
	want := map[string]string{"msg_": "forged", "time_": "1970", "level_": "error", "source_": "s", "backend_": "other", "device": "a", "a b": "c d"}
	if !maps.Equal(got, want) {
		t.Errorf("fields %q, want %q", got, want)
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
