package main

import (
	"context"
	"errors"
	"io/fs"

	"github.com/accelmux/accelmux/backends/sdk"
)

var (
	_ sdk.Preparer = (*backend)(nil)
	_ sdk.Releaser = (*backend)(nil)
)

// Step 5: Prepare and Release. The kernel does not suspend a camera that is allocated: many
// lose their first pictures when they resume.
func init() {
	extend = append(extend, func(d *sdk.Device, _ string) { d.Hooks = append(d.Hooks, sdk.HookPrepare, sdk.HookRelease) })
}

// Prepare is called before each start of a container, and is idempotent.
func (b *backend) Prepare(_ context.Context, p sdk.Preparation) (edits map[string]*sdk.Edits, err error) {
	for _, id := range p.IDs() {
		err = errors.Join(err, write(id, "power/control", "on"))
	}
	return nil, err
}

// Release is called when a holder has ended, and again after a failure. A camera that another
// container has is not changed; one that was unplugged is released.
func (b *backend) Release(_ context.Context, _ sdk.Holder, devices []sdk.HeldDevice) (failed map[string]error, err error) {
	failed = map[string]error{}
	for _, d := range devices {
		if d.Shared {
			continue
		}
		if err := write(d.ID, "power/control", "auto"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed[d.ID] = err
		}
	}
	return failed, nil
}
