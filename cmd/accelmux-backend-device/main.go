// Command accelmux-backend-device is the backend for devices that are described. See package device.
package main

import (
	"os"
	"runtime/debug"

	"github.com/accelmux/accelmux/backends/device"
	"github.com/accelmux/accelmux/backends/sdk"
)

// gcPercent is GOGC, low to save memory: a backend allocates little, so collections are rare.
const gcPercent = 25

func main() {
	debug.SetGCPercent(gcPercent)
	os.Exit(sdk.Serve(device.New()))
}
