package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/proto/openfiles"
)

var _ sdk.Resetter = (*backend)(nil)

// Reset is step 3: it makes the kernel configure the camera again
// (Documentation/usb/authorization.rst). The core calls it when no container has the camera.
func (b *backend) Reset(ctx context.Context, ids []string) (results []*sdk.ResetResult, err error) {
	for _, id := range ids {
		result := &sdk.ResetResult{DeviceId: id}
		err := b.unused(ctx, id)
		if err == nil {
			err = errors.Join(b.write(id, "authorized", "0"), b.write(id, "authorized", "1"))
		}
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

// unused returns an error if a process has the camera open, also one outside of containers.
func (b *backend) unused(ctx context.Context, id string) error {
	dirs, err := b.cameras()
	if err != nil {
		return err
	}
	found, err := openfiles.Find(ctx, b.host.Load().(sdk.HostPaths).Procfs, nodes(dirs[id])...)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("no reset while processes have the camera open: %s", found)
	}
	return err
}
