//go:build cgo

// Command accelmux-backend-nvidia is the backend for NVIDIA GPUs, and with the argument mps
// the companion that runs MPS's control daemon. See packages nvidia and mps. It needs cgo, since the driver's library is written in C.
package main

import (
	"os"
	"runtime/debug"

	"github.com/accelmux/accelmux/backends/nvidia"
	"github.com/accelmux/accelmux/backends/nvidia/mps"
	"github.com/accelmux/accelmux/backends/sdk"
)

// gcPercent is GOGC, low to save memory: a backend allocates little, so collections are rare.
const gcPercent = 25

func main() {
	debug.SetGCPercent(gcPercent)
	if len(os.Args) > 1 && os.Args[1] == mps.Name {
		os.Exit(mps.Main(os.Args[2:]))
	}
	os.Exit(sdk.Serve(nvidia.New(os.Exit)))
}
