// Command accelmux-backend-fpga is the backend of FPGAs. See package fpga.
package main

import (
	"os"
	"runtime/debug"

	"github.com/accelmux/accelmux/backends/fpga"
	"github.com/accelmux/accelmux/backends/sdk"
)

// gcPercent keeps the heap small: little is allocated, and memory costs a node more
// than the rare collection.
const gcPercent = 25

func main() {
	debug.SetGCPercent(gcPercent)
	os.Exit(sdk.Serve(fpga.New()))
}
