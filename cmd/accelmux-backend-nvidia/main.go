//go:build cgo

// Command accelmux-backend-nvidia is the backend of NVIDIA's GPUs. See package
// nvidia. It needs cgo, since the driver's library is one of C.
package main

import (
	"os"

	"github.com/accelmux/accelmux/backends/nvidia"
	"github.com/accelmux/accelmux/backends/sdk"
)

func main() { os.Exit(sdk.Serve(nvidia.New(os.Exit))) }
