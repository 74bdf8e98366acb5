//go:build cgo

// Command accelmux-backend-nvidia is the backend for NVIDIA GPUs. See package
// nvidia. It needs cgo, since the driver's library is written in C.
package main

import (
	"os"
	"runtime/debug"

	"github.com/accelmux/accelmux/backends/nvidia"
	"github.com/accelmux/accelmux/backends/sdk"
)

// gcPercent is GOGC, low to save memory: a backend allocates little, so collections are rare.
const gcPercent = 25

func main() {
	debug.SetGCPercent(gcPercent)
	os.Exit(sdk.Serve(nvidia.New(os.Exit)))
}
