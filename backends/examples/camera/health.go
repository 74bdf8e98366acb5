package main

import "github.com/accelmux/accelmux/backends/sdk"

var _ diagnosed = (*backend)(nil)

// health is step 2: a camera is unhealthy if the kernel failed to suspend or to resume it
// (Documentation/ABI/testing/sysfs-devices-power). Any other status is evidence of recovery.
func (b *backend) health(dir string) *sdk.Health {
	if broken(dir) {
		return sdk.Fault("power-error", sdk.RecoveryReset, "the kernel cannot suspend or resume the camera: unplug it if a reset does not help")
	}
	return sdk.Recovered()
}

func broken(dir string) bool { return read(dir, "power/runtime_status") == "error" }
