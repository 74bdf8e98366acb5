package device

import (
	"context"
	"errors"
	"fmt"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Prepare implements [sdk.Preparer]: it does the steps of the descriptions, for devices that no
// other container has. A device that is bound to a driver by them has its nodes only then, and
// returns what it has as edits.
func (b *Backend) Prepare(ctx context.Context, p sdk.Preparation) (map[string]*sdk.Edits, error) {
	ctx, cancel := sdk.InTime(ctx)
	defer cancel()
	found, err := b.Find(ctx, p.IDs())
	if err == nil {
		err = found.Missing()
	}
	if err != nil {
		return nil, err
	}
	shared := map[string]bool{}
	for _, id := range p.Shared() {
		shared[id] = true
	}
	var bound []string
	for _, t := range found.Devices {
		s, ok := t.Driver.(source)
		if !ok || shared[t.Device.ID] {
			continue
		}
		if err := b.prepare(ctx, s, t); err != nil {
			return nil, fmt.Errorf("prepare %s: %w", t.Device.ID, err)
		}
		if s.binds() {
			bound = append(bound, t.Device.ID)
		}
	}
	if len(bound) == 0 {
		return nil, nil
	}
	seen, err := b.Scan(ctx, false, bound...)
	if err != nil {
		return nil, err
	}
	edits := map[string]*sdk.Edits{}
	for _, id := range bound {
		// It must match still, now that it has another driver.
		if err := errors.Join(seen.Targets[id].Device.EditsErr, seen.Healthy(id, false)); err != nil {
			return nil, fmt.Errorf("prepare %s: after it was bound: %w", id, err)
		}
		edits[id] = seen.Targets[id].Device.Edits
	}
	return edits, nil
}

// prepare does the steps for one device.
func (b *Backend) prepare(ctx context.Context, s source, t engine.Target) error {
	leave, err := b.Enter(ctx, t.Board...)
	if err != nil {
		return err
	}
	return b.Run(ctx, []engine.Target{t}, leave, engine.Operation{
		What: t.Device.ID + " is being prepared",
		Do: func(context.Context) error {
			for i, step := range s.kind.Prepare {
				for _, o := range readingIn(t.Device).objects {
					var err error
					if step.Bind != nil {
						err = s.bind(step.Bind.Driver, o)
					} else {
						_, err = write(step.Write, o)
					}
					if err != nil {
						return fmt.Errorf("step %d of the kind %s: %w", i+1, s.kind.Name, err)
					}
				}
			}
			return nil
		},
	})
}
