// Command accelmux-backend-amd is the backend of AMD's GPUs. See package amd.
package main

import (
	"os"
	"runtime/debug"

	"github.com/accelmux/accelmux/backends/amd"
	"github.com/accelmux/accelmux/backends/sdk"
)

// gcPercent keeps the heap small: little is allocated, and memory costs a node more
// than the rare collection.
const gcPercent = 25

func main() {
	debug.SetGCPercent(gcPercent)
	os.Exit(sdk.Serve(amd.New()))
}
