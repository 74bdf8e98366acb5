//go:build cgo

// Command accelmux-backend-nvidia is the backend of NVIDIA's GPUs. See package
// nvidia. It needs cgo, since the driver's library is one of C.
package main

import (
	"os"
	"runtime/debug"

	"github.com/accelmux/accelmux/backends/nvidia"
	"github.com/accelmux/accelmux/backends/sdk"
)

// gcPercent keeps the heap small: little is allocated, and memory costs a node more
// than the rare collection.
const gcPercent = 25

func main() {
	debug.SetGCPercent(gcPercent)
	os.Exit(sdk.Serve(nvidia.New(os.Exit)))
}
