package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// startPercent has the first garbage collection at 16 MB of heap and not at 4 MB: a
	// start allocates less than that, and a collection stops all threads twice, which
	// takes long on a node that starts everything at once.
	startPercent = 400
	// usualPercent is Go's own.
	usualPercent = 100
	// startTime is when a start is over for sure.
	startTime = 10 * time.Second
)

// collectLater puts the first garbage collection off until the start is over, or the heap
// is as startPercent has it. From then on collections are as usual, and what the start
// needed goes back to the system. Who sets Go's variables for it knows better.
func collectLater() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(startPercent)
	usual := sync.OnceFunc(func() { debug.SetGCPercent(usualPercent) })
	// What nobody refers to is found by the first collection.
	runtime.AddCleanup(new([64]byte), func(struct{}) { usual() }, struct{}{})
	time.AfterFunc(startTime, func() {
		usual()
		debug.FreeOSMemory()
	})
}
