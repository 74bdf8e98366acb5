package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// startPercent (GOGC) delays the first garbage collection to 16 MB of heap instead of
	// 4 MB. A start allocates less than that, and a collection stops all threads twice,
	// which takes long on a node that starts all its services at once.
	startPercent = 400
	// startTime is the longest time that a start takes.
	startTime = 10 * time.Second

	// heapRoom is the heap, in bytes, at which a collection starts while less is in use.
	// Go's default, twice what is in use, would collect a heap of a few MB often, and each
	// collection delays kubelet's calls.
	heapRoom = 16 << 20
	// GOGC is at least ownPercent, Go's default, and at most mostPercent: a collection also
	// counts stacks, and these must fit below heapRoom. It changes in steps of percentStep,
	// since each change stops all threads.
	ownPercent, mostPercent, percentStep = 100, 300, 50

	// calmTime after a collection without another one, unused memory is returned to the
	// system if it is more than spareHeap bytes and a quarter of what is in use.
	calmTime  = 10 * time.Second
	spareHeap = 2 << 20
)

// collector adjusts GOGC after each garbage collection.
type collector struct {
	percent int
	calm    *time.Timer
}

// collectLater delays the first garbage collection beyond the start. Later collections leave a
// small heap room to grow, and unused memory is returned to the system when collections become
// rare. It does nothing if GOGC or GOMEMLIMIT is in the environment. Call it once.
func collectLater() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	c := &collector{percent: startPercent, calm: time.AfterFunc(startTime, debug.FreeOSMemory)}
	debug.SetGCPercent(c.percent)
	c.await()
}

// await makes the runtime call collected after the next collection: that collection finds the
// new object unreachable, and runs its cleanup.
func (c *collector) await() {
	runtime.AddCleanup(new([64]byte), (*collector).collected, c)
}

// collected is called after a collection, by one goroutine at a time.
func (c *collector) collected() {
	live, _, _ := heap()
	if percent := percentFor(live); percent != c.percent {
		c.percent = percent
		debug.SetGCPercent(percent)
	}
	c.calm.Stop()
	c.calm = time.AfterFunc(calmTime, func() { giveBack(live / 4) })
	c.await()
}

// giveBack collects and returns memory to the system if more than spareHeap+keep bytes of the
// heap are not in use.
func giveBack(keep uint64) {
	if live, used, free := heap(); used-live+free > spareHeap+keep {
		debug.FreeOSMemory()
	}
}

// percentFor returns the GOGC for a heap with live bytes in use.
func percentFor(live uint64) int {
	if live == 0 || live >= heapRoom {
		return ownPercent
	}
	percent := min(100*(heapRoom-live)/live, mostPercent) / percentStep * percentStep
	return int(max(percent, ownPercent)) //nolint:gosec // at most mostPercent
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
