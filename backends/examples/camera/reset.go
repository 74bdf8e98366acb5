package main

import (
	"context"
	"errors"

	"github.com/accelmux/accelmux/backends/sdk"
)

var _ sdk.Resetter = (*backend)(nil)

func init() { description.Needs.WritePaths = []string{"/sys/devices/**"} }

// Reset is step 3: it makes the kernel configure the camera again
// (Documentation/usb/authorization.rst). The core calls it when no container has the camera.
func (b *backend) Reset(_ context.Context, ids []string) (results []*sdk.ResetResult, err error) {
	for _, id := range ids {
		result := &sdk.ResetResult{DeviceId: id}
		if err := errors.Join(write(id, "authorized", "0"), write(id, "authorized", "1")); err != nil {
			result.Message = err.Error()
		} else if dir, _ := places.Load(id); broken(dir.(string)) {
			result.Message = "the kernel still cannot suspend or resume the camera"
		} else {
			result.Recovered = true
		}
		results = append(results, result)
	}
	return results, nil
}
