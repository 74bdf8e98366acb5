package main

import (
	"context"
	"errors"

	"github.com/accelmux/accelmux/backends/sdk"
)

var _ sdk.Resetter = (*backend)(nil)

// Reset is step 3: it makes the kernel configure the camera again
// (Documentation/usb/authorization.rst). The core calls it when no container
// has the camera, and no process has it open (inUse: core).
func (b *backend) Reset(_ context.Context, ids []string) (results []*sdk.ResetResult, err error) {
	for _, id := range ids {
		result := &sdk.ResetResult{DeviceId: id}
		err := errors.Join(b.write(id, "authorized", "0"), b.write(id, "authorized", "1"))
		dirs, again := b.cameras()
		if err = errors.Join(err, again); err != nil {
			result.Message = err.Error()
		} else if broken(dirs[id]) {
			result.Message = "the kernel still cannot suspend or resume the camera"
		} else {
			result.Recovered = true
		}
		results = append(results, result)
	}
	return results, nil
}
