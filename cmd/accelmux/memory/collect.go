// Package memory adapts Go's garbage collector to the agent: see [Limit], and init, which needs no call.
package memory

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

const (
	// startPercent (GOGC) delays the first garbage collection to 24 MB of heap instead of
	// 4 MB. A start allocates less than that, and a collection stops all threads twice,
	// which takes long on a node that starts all its services at once.
	startPercent = 600
	// startTime is the longest time that a start takes.
	startTime = 10 * time.Second

	// heapRoom is the heap, in bytes, at which a collection starts while less is in use.
	// Go's default, twice what is in use, would collect a heap of a few MB often, and each
	// collection delays kubelet's calls.
	heapRoom = 16 << 20
	// GOGC is at least leastPercent, half of Go's default, to save memory on a node of thousands
	// of devices, and at most mostPercent: a collection also counts stacks, and these must fit
	// below heapRoom. It changes in steps of percentStep, since each change stops all threads.
	leastPercent, mostPercent, percentStep = 50, 300, 50

	// returnTime after a collection, unused memory is returned to the system if it is more than
	// spareHeap bytes and a quarter of what is in use, or if more than heapRoom is in use: a
	// request for the metrics of 4,096 devices needs 20 MB for a moment, and a collection at
	// that moment finds them in use. Telemetry causes a collection every few seconds, so other
	// collections meanwhile do not delay this.
	returnTime = 10 * time.Second
	spareHeap  = 2 << 20
)

// collector adjusts GOGC after each garbage collection.
type collector struct {
	// percent is GOGC. Cleanups run in several goroutines.
	percent atomic.Int64
	// pending is set while memory is about to be returned, and returning while it is: the
	// collection of that is no reason to return memory again.
	pending, returning atomic.Bool
}

// init applies to all commands, and before most packages are initialised, which allocates 8 MB: Go initialises packages
// by their names, each after what it imports (https://go.dev/ref/spec#Program_initialization), so this package imports little.
func init() { collectLater() }

// collectLater delays the first garbage collection beyond the start. Later collections leave a
// small heap room to grow, and unused memory is returned to the system. It does nothing if
// GOGC or GOMEMLIMIT is in the environment. Call it once.
func collectLater() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	c := &collector{}
	c.percent.Store(startPercent)
	debug.SetGCPercent(startPercent)
	time.AfterFunc(startTime, debug.FreeOSMemory)
	c.await()
}

// await makes the runtime call collected after the next collection: that collection finds the
// new object unreachable, and runs its cleanup.
func (c *collector) await() {
	runtime.AddCleanup(new([64]byte), (*collector).collected, c)
}

// collected is called after a collection, once at a time.
func (c *collector) collected() {
	live, _, _ := heap()
	if percent := percentFor(live); int64(percent) != c.percent.Swap(int64(percent)) {
		debug.SetGCPercent(percent)
	}
	if !c.returning.Swap(false) && !c.pending.Swap(true) {
		time.AfterFunc(returnTime, c.giveBack)
	}
	c.await()
}

// giveBack collects and returns memory to the system if much is not in use.
func (c *collector) giveBack() {
	c.pending.Store(false)
	if live, used, free := heap(); used-live+free > spareHeap+live/4 || live > heapRoom {
		c.returning.Store(true)
		debug.FreeOSMemory()
	}
}

// percentFor returns the GOGC for a heap with live bytes in use.
func percentFor(live uint64) int {
	if live == 0 || live >= heapRoom {
		return leastPercent
	}
	percent := min(100*(heapRoom-live)/live, mostPercent) / percentStep * percentStep
	return int(max(percent, leastPercent)) //nolint:gosec // at most mostPercent
}

// heap returns, in bytes, what the latest collection found in use (live), that and what was
// allocated since (used), and what is free and not returned to the system (free).
func heap() (live, used, free uint64) {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	live = samples[0].Value.Uint64()
	return live, max(samples[1].Value.Uint64(), live), samples[2].Value.Uint64()
}
