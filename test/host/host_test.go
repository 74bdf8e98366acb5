package host

import (
	"fmt"
	"runtime"
	"testing"
)

// recorder is a test that notes how it ended.
type recorder struct {
	testing.TB
	end string
}

func (r *recorder) Helper() {}

func (r *recorder) Skip(args ...any) {
	r.end = "skip: " + fmt.Sprint(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.end = "fail: " + fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// Verifies that what the machine lacks is a skip, and by the environment variable a
// failure that says it.
func TestLacks(t *testing.T) {
	for value, want := range map[string]string{
		"":  "skip: no mounts: 3",
		"0": "skip: no mounts: 3",
		"1": "fail: no mounts: 3 (with ACCELMUX_NO_SKIPS=1 no test may be skipped for what the machine lacks)",
	} {
		t.Setenv(StrictEnv, value)
		r, ended := &recorder{}, make(chan struct{})
		go func() {
			defer close(ended)
			Lacks(r, "no mounts: %d", 3)
			r.end = "the test goes on"
		}()
		if <-ended; r.end != want {
			t.Errorf("%s=%s: %s, want %s", StrictEnv, value, r.end, want)
		}
	}
}
