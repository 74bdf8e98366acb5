// Command accelmux-backend-amd is the backend for AMD GPUs. See package amd.
package main

import (
	"os"
	"runtime/debug"

	"github.com/accelmux/accelmux/backends/amd"
	"github.com/accelmux/accelmux/backends/sdk"
)

// gcPercent is GOGC, low to save memory: a backend allocates little, so collections are rare.
const gcPercent = 25

func main() {
	debug.SetGCPercent(gcPercent)
	os.Exit(sdk.Serve(amd.New()))
}
