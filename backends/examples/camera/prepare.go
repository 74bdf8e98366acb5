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

// Prepare is step 5, with Release: the kernel does not suspend a camera that is allocated, since many lose their first
// pictures when they resume. It is called before each start of a container, and is idempotent.
func (b *backend) Prepare(_ context.Context, p sdk.Preparation) (edits map[string]*sdk.Edits, err error) {
	for _, id := range p.IDs() {
		err = errors.Join(err, b.write(id, "power/control", "on"))
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
		if err := b.write(d.ID, "power/control", "auto"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed[d.ID] = err
		}
	}
	return failed, nil
}
