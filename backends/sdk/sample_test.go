package sdk

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Verifies that a card that hangs loses its own values, after 3 s, and no others.
func TestCollect(t *testing.T) {
	for name, c := range map[string]struct {
		cards int
		after time.Duration
		log   string // empty for nothing
	}{
		"none":           {0, 0, ""},
		"all":            {2, 0, ""},
		"one of 3 hangs": {3, 3 * time.Second, "cards=1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				measured := make(chan []*Metric, c.cards)
				want := min(c.cards, 2)
				for range want {
					measured <- []*Metric{Gauge("a", "power_watts", 1)}
				}
				var log bytes.Buffer
				began := time.Now()
				debug := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				got, err := Collect(t.Context(), debug, measured, c.cards)
				if err != nil || len(got) != want || time.Since(began) != c.after {
					t.Errorf("%d values, %v, after %v; want %d, after %v", len(got), err, time.Since(began), want, c.after)
				}
				if (log.Len() == 0) != (c.log == "") || !strings.Contains(log.String(), c.log) {
					t.Errorf("log %q, want %q", log.String(), c.log)
				}
			})
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Collect(ended, slog.Default(), nil, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the call: %v", err)
	}
}
