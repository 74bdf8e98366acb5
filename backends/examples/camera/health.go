package main

import "github.com/accelmux/accelmux/backends/sdk"

// Step 2: health. A camera is unhealthy if the kernel failed to suspend or to resume it
// (Documentation/ABI/testing/sysfs-devices-power). Any other status is evidence of recovery.
func init() {
	extend = append(extend, func(d *sdk.Device, dir string) {
		if d.Health = sdk.Recovered(); broken(dir) {
			d.Health = sdk.Fault("power-error", sdk.RecoveryReset, "the kernel cannot suspend or resume the camera: unplug it if a reset does not help")
		}
	})
}

func broken(dir string) bool { return read(dir, "power/runtime_status") == "error" }
