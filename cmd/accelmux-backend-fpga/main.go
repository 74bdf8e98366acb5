// Command accelmux-backend-fpga is the backend for FPGAs. See package fpga.
package main

import (
	"os"
	"runtime/debug"

	"github.com/accelmux/accelmux/backends/fpga"
	"github.com/accelmux/accelmux/backends/sdk"
)

// gcPercent is GOGC, low to save memory: a backend allocates little, so collections are rare.
const gcPercent = 25

func main() {
	debug.SetGCPercent(gcPercent)
	os.Exit(sdk.Serve(fpga.New()))
}
