package memory

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/accelmux/accelmux/test/patience"
)

// percent returns the GOGC in force.
func percent() int {
	now := debug.SetGCPercent(leastPercent)
	debug.SetGCPercent(now)
	return now
}

// Verifies that collections are delayed at the start and leave a small heap room after the
// first one, and that an operator's own value stays. It comes last: the collector does not end.
func TestCollectLater(t *testing.T) {
	defer debug.SetGCPercent(percent())
	t.Setenv("GOMEMLIMIT", "")
	t.Setenv("GOGC", "50")
	debug.SetGCPercent(50)
	collectLater()
	if now := percent(); now != 50 {
		t.Errorf("with GOGC of 50 it is %d", now)
	}

	t.Setenv("GOGC", "")
	collectLater()
	if now := percent(); now != startPercent {
		t.Errorf("at the start it is %d, want %d", now, startPercent)
	}
	await := func(when string, reached func() bool) {
		t.Helper()
		if !patience.Within(patience.Long, func() bool {
			runtime.GC()
			return reached()
		}) {
			t.Fatalf("%s it is %d", when, percent())
		}
	}
	await("after a collection", func() bool { return percent() < startPercent && percent() > leastPercent })
	large := make([]byte, heapRoom+heapRoom/4)
	await("with a larger heap", func() bool { return percent() == leastPercent })
	runtime.KeepAlive(large)
	await("with a small heap again", func() bool { return percent() > leastPercent })
}

// Verifies that the collection by which memory is returned does not lead to another one.
func TestReturnOnce(t *testing.T) {
	c := &collector{}
	c.percent.Store(int64(percent()))
	c.returning.Store(true)
	c.collected()
	if c.pending.Load() {
		t.Error("memory is returned again and again")
	}
	if c.collected(); !c.pending.Load() {
		t.Error("memory is not returned after another collection")
	}
}
