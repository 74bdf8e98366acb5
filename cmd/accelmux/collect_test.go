package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/accelmux/accelmux/test/patience"
)

// percent is when the next garbage collection is due.
func percent() int {
	now := debug.SetGCPercent(ownPercent)
	debug.SetGCPercent(now)
	return now
}

func TestPercentFor(t *testing.T) {
	for live, want := range map[uint64]int{
		0: ownPercent, 1: mostPercent, 3 << 20: mostPercent, 5 << 20: 200, 6 << 20: 150, 7 << 20: ownPercent,
		heapRoom - 1: ownPercent, heapRoom: ownPercent, largeRoom: ownPercent,
		40 << 20: 80, 100 << 20: 30, 128 << 20: leastPercent, 1 << 40: leastPercent,
	} {
		if percent := percentFor(live); percent != want {
			t.Errorf("with %d bytes in use: %d, want %d", live, percent, want)
		}
	}
}

var sink []byte // so that what is allocated for the test is on the heap

// What a burst needed is given back when it is over, and not while it goes on.
func TestBurstIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // or the timer may have fired before it is looked at
		c := &collector{kept: 1 << 40}
		c.burst = time.AfterFunc(time.Hour, func() {})
		c.burst.Stop()
		c.before = allocated()
		sink = make([]byte, 2*burstBytes)
		if c.over(); !c.burst.Stop() {
			t.Error("a burst that goes on is over")
		}
		if c.over(); c.burst.Stop() {
			t.Error("a burst that is over goes on")
		}
	})
}

// In the quiet after a round a large heap that has grown is collected; a small one, or one
// that has not grown by much, is left alone.
func TestCollectsInTheQuiet(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // but for what the test asks for
	defer func() { sink = nil }()
	runtime.GC()
	sink = make([]byte, 2*quietRoom)
	if collectGrown() {
		t.Error("a small heap was collected")
	}
	large := make([]byte, 2*largeRoom)
	runtime.GC()
	sink = make([]byte, quietRoom/2)
	if collectGrown() {
		t.Error("a heap that has hardly grown was collected")
	}
	sink = make([]byte, quietRoom)
	if !collectGrown() {
		t.Error("a large heap that has grown was not collected")
	}
	if collectGrown() {
		t.Error("a heap was collected twice")
	}
	runtime.KeepAlive(large)
}

// The quiet after a round is one without another round.
func TestQuietFollowsARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet := make(chan time.Time, 1)
		c := &collector{quiet: time.AfterFunc(time.Hour, func() { quiet <- time.Now() })}
		for range 3 {
			<-time.After(quietTime / 2)
			c.settled()
		}
		last := time.Now()
		if since := (<-quiet).Sub(last); since != quietTime {
			t.Errorf("it is quiet %v after a round, want %v", since, quietTime)
		}
	})
}

// Collections are put off at the start, and leave a small heap room after the first one;
// an operator's own value counts as it is. It comes last: its collector goes on collecting.
func TestCollectLater(t *testing.T) {
	defer debug.SetGCPercent(percent())
	t.Setenv("GOMEMLIMIT", "")
	t.Setenv("GOGC", "50")
	debug.SetGCPercent(50)
	collectLater()()
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
	await("after a collection", func() bool { return percent() < startPercent && percent() > ownPercent })
	large := make([]byte, heapRoom+heapRoom/4)
	await("with a larger heap", func() bool { return percent() == ownPercent })
	runtime.KeepAlive(large)
	large = make([]byte, 10*largeRoom)
	await("with a large heap", func() bool { return percent() == leastPercent })
	runtime.KeepAlive(large)
	await("with a small heap again", func() bool { return percent() > ownPercent })
}
