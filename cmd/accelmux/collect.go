package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// startPercent has the first garbage collection at 16 MB of heap and not at 4 MB: a
	// start allocates less than that, and a collection stops all threads twice, which
	// takes long on a node that starts everything at once.
	startPercent = 400
	// startTime is when a start is over for sure.
	startTime = 10 * time.Second

	// heapRoom is the heap at which a collection is due, if what is in use is small:
	// Go's own percentage has it at twice that, which of a few MB is soon, and each
	// collection delays the calls of kubelet that meet it.
	heapRoom = 16 << 20
	// ownPercent is Go's own, for a heap between the two; mostPercent leaves heapRoom
	// room for stacks, of which a collection takes account, too. In between, percentStep
	// keeps the value from being set, which stops all threads, for no more than noise.
	ownPercent, mostPercent, percentStep = 100, 300, 50

	// largeRoom is what a heap may grow that has more in use than that, as with tens of
	// thousands of devices: the double of it would be memory that is never used but for
	// garbage. It is ten changes of health of one of 50,000 devices, and a collection of
	// 100 MB takes 100 ms of a core. At leastPercent room grows with the heap again.
	largeRoom, leastPercent, largeStep = 32 << 20, 25, 5

	// burstTime after a collection without another, in which no more than burstBytes were
	// allocated, a burst is over: what it needed goes back to the system, if that is
	// spareHeap more than what the heap may grow anyway, or for a large heap an eighth of
	// what is in use. Before that, devices that fail one after the other would each wait for
	// it. calmTime after a collection, nothing goes on: then spareHeap and a quarter of what
	// is in use is enough.
	burstTime  = time.Second
	burstBytes = 2 << 20
	calmTime   = 10 * time.Second
	spareHeap  = 2 << 20

	// quietTime after a round of the agent with no other, a large heap that has grown by
	// quietRoom is collected. Who has the processors then is not kubelet any more, which has
	// taken in its list, and the fault that would have met the collection comes later.
	quietTime = 100 * time.Millisecond
	quietRoom = largeRoom / 3
)

// collector decides when garbage is collected.
type collector struct {
	percent            int
	burst, calm, quiet *time.Timer

	mu sync.Mutex
	// before is what was allocated at the last look whether a burst goes on, and kept what
	// its end leaves the heap, both in bytes.
	before, kept uint64
}

// collectLater puts the first garbage collection off until the start is over, or the heap
// is as startPercent has it. From then on collections leave a small heap room, and what a
// start or a burst needed goes back to the system after it. Who sets Go's variables for it
// knows better. What it returns is to be called after each round of the agent.
func collectLater() (settled func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	c := &collector{percent: startPercent, calm: time.AfterFunc(startTime, debug.FreeOSMemory)}
	c.burst = time.AfterFunc(startTime, c.over)
	c.burst.Stop()
	c.quiet = time.AfterFunc(startTime, func() { collectGrown() })
	debug.SetGCPercent(c.percent)
	c.await()
	return c.settled
}

// settled follows a round of the agent.
func (c *collector) settled() { c.quiet.Reset(quietTime) }

// collectGrown collects a large heap that has grown by quietRoom, and reports whether it is one.
func collectGrown() bool {
	live, used, _ := heap()
	grown := live > largeRoom && used > live+quietRoom
	if grown {
		runtime.GC()
	}
	return grown
}

// await has collected called after the next collection: what nobody refers to is found by it.
func (c *collector) await() {
	runtime.AddCleanup(new([64]byte), (*collector).collected, c)
}

// collected follows a collection. Only one is going on.
func (c *collector) collected() {
	live, _, _ := heap()
	if percent := percentFor(live); percent != c.percent {
		c.percent = percent
		debug.SetGCPercent(percent)
	}
	c.calm.Stop()
	kept := live / 8
	if live <= largeRoom {
		kept = live / 100 * uint64(c.percent) //nolint:gosec // it is positive
	}
	c.mu.Lock()
	c.before, c.kept = allocated(), kept
	c.mu.Unlock()
	c.burst.Reset(burstTime)
	c.calm = time.AfterFunc(calmTime, func() { giveBack(live / 4) })
	c.await()
}

// over gives back what a burst needed if it is over, and else looks again later.
func (c *collector) over() {
	c.mu.Lock()
	now, before, kept := allocated(), c.before, c.kept
	c.before = now
	c.mu.Unlock()
	if now > before+burstBytes {
		c.burst.Reset(burstTime)
		return
	}
	giveBack(kept)
}

// giveBack returns memory to the system, if it is worth a collection: if the heap has
// spareHeap more than so many bytes that are not in use.
func giveBack(kept uint64) {
	if live, used, free := heap(); used-live+free > spareHeap+kept {
		debug.FreeOSMemory()
	}
}

// percentFor is how much a heap may grow of which so many bytes are in use.
func percentFor(live uint64) int {
	percent := uint64(ownPercent)
	switch {
	case live == 0:
	case live < heapRoom:
		percent = max(min(100*(heapRoom-live)/live, mostPercent)/percentStep*percentStep, ownPercent)
	case live > largeRoom:
		percent = max(100*largeRoom/live/largeStep*largeStep, leastPercent)
	}
	return int(percent) //nolint:gosec // it is mostPercent at most
}

// allocated is how many bytes were since the process began.
func allocated() uint64 {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64()
}

// heap is, in bytes, what the latest collection found in use, that and what was allocated
// since, and what is free and not given back to the system.
func heap() (live, used, free uint64) {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	live = samples[0].Value.Uint64()
	return live, max(samples[1].Value.Uint64(), live), samples[2].Value.Uint64()
}
