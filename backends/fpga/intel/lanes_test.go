package intel

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Verifies that operations on one board run one at a time and to their end, that a caller whose
// time is up gets an error, and that other boards do not wait.
func TestLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lanes
		var mu sync.Mutex
		var order []string
		note := func(step string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, step)
		}
		work := func(name string, takes time.Duration) func() (string, error) {
			return func() (string, error) {
				note(name + " begins")
				<-time.After(takes)
				note(name + " ends")
				return name, nil
			}
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var long sync.WaitGroup
		long.Go(func() {
			if done, err := l.run(short, "a", work("long", 10*time.Second)); err != nil || done != "long" {
				t.Error(done, err)
			}
		})
		<-time.After(2 * time.Second)
		if _, err := l.run(short, "a", work("late", 0)); !errors.Is(err, errNotBegun) {
			t.Error(err)
		}
		if done, err := l.run(t.Context(), "b", work("other", 0)); err != nil || done != "other" {
			t.Error(done, err)
		}
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.run(brief, "a", work("impatient", 0)); !errors.Is(err, errOccupied) {
			t.Error(err)
		}
		if done, err := l.run(t.Context(), "a", work("patient", time.Second)); err != nil || done != "patient" {
			t.Error(done, err)
		}
		long.Wait()
		want := []string{"long begins", "other begins", "other ends", "long ends", "patient begins", "patient ends"}
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(order, want) {
			t.Errorf("%q, want %q", order, want)
		}
	})
}
