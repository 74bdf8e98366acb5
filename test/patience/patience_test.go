package patience

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Verifies that a limit is of time in which somebody looked: a pause of the whole machine
// counts little, and what never happens is given up at the limit.
func TestWithin(t *testing.T) {
	for name, c := range map[string]struct {
		happens, stall time.Duration
		want           bool
		took           time.Duration
	}{
		"at once":              {0, 0, true, 0},
		"in time":              {time.Second, 0, true, time.Second},
		"never":                {time.Hour, 0, false, 2 * time.Second},
		"late, and so were we": {5 * time.Second, 4500 * time.Millisecond, true, 5 * time.Second},
		"never, and we stood":  {time.Hour, 4500 * time.Millisecond, false, 6400 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, looked := time.Now(), 0
				got := Within(2*time.Second, func() bool {
					if looked++; looked == 2 {
						<-time.After(c.stall)
					}
					return time.Since(began) >= c.happens
				})
				if took := time.Since(began); got != c.want || took < c.took || took > c.took+20*time.Millisecond {
					t.Errorf("it was %v after %v with %d looks, want %v after %v", got, took, looked, c.want, c.took)
				}
			})
		})
	}
}

// failure is a test that notes how it failed.
type failure struct {
	testing.TB

	said string
}

func (f *failure) Helper() {}

func (f *failure) Fatalf(format string, args ...any) { f.said = fmt.Sprintf(format, args...) }

// Verifies that what did not happen is said.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failure{TB: t}
		Until(f, "the kettle boils", func() bool { return true })
		if f.said != "" {
			t.Errorf("said %q", f.said)
		}
		Until(f, "the kettle boils", func() bool { return false })
		if want := "the kettle boils: not within 1m0s"; f.said != want {
			t.Errorf("said %q, want %q", f.said, want)
		}
	})
}
