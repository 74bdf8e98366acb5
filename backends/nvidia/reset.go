package nvidia

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/accelmux/accelmux/backends/process"
	"github.com/accelmux/accelmux/backends/sdk"
)

const (
	// answerLimit is how long a GPU may take to answer after its reset.
	answerLimit = 30 * time.Second
)

// Reset implements [sdk.Resetter]. It lets go of the driver meanwhile, since a GPU
// that anybody has open is not reset: for some seconds no GPU is looked at, and
// what happens to the others then is only seen by its traces.
func (b *Backend) Reset(ctx context.Context, ids []string) ([]*sdk.ResetResult, error) {
	ctx, cancel := sdk.InTime(ctx)
	defer cancel()
	t, err := b.find(ctx, ids)
	if err == nil {
		err = errors.Join(t.Missing(), t.Alone())
	}
	var done string
	var seen *found
	if err == nil {
		done, seen, err = b.reset(ctx, t)
	}
	if err == nil {
		b.log.Info("GPUs were reset", "devices", ids, "how", done)
	}
	return sdk.ResetResults(b.log, ids, done, seen.sound, err), nil
}

// reset resets all GPUs of the targets' group, and says what was done and what the
// loop found then. An error may also mean that the reset was done and did not help.
func (b *Backend) reset(ctx context.Context, t *targets) (done string, seen *found, err error) {
	select {
	case b.resetting <- struct{}{}:
		defer func() { <-b.resetting }()
	case <-ctx.Done():
		return "", nil, fmt.Errorf("other GPUs are being reset: %w", ctx.Err())
	}
	if err := t.free(ctx, true); err != nil {
		return "", nil, err
	}
	h, err := b.keep(ctx)
	if err == nil {
		if err = h.driver.Close(ctx); err == nil {
			done, err = t.cfg.means.Reset(ctx, b.resetter, t.toReset())
		} else {
			err = fmt.Errorf("no reset while this process itself has the GPU open: %w", err)
		}
	}
	if h == nil {
		return "", nil, err
	}
	if err != nil {
		_, _ = b.giveBack(ctx, h, nil) // why there was no reset is the error that counts
		return "", nil, err
	}
	limited, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	if seen, err = b.giveBack(limited, h, t.uuids()); err != nil {
		return "", nil, fmt.Errorf("the reset was done, but not all GPUs answer after it: %w (%s)", err, done)
	}
	return done, seen, nil
}

// free is an error if NVML knows of processes that use a GPU of the group. GPUs
// that cannot say, as many cannot that need a reset, may be let pass: the means of
// the reset know better.
func (t *targets) free(ctx context.Context, pass bool) error {
	for _, g := range t.group {
		users, err := t.users(ctx, target{id: g.UUID, gpu: g})
		if ctx.Err() != nil || err != nil && !pass {
			return fmt.Errorf("see whether GPU %s is in use: %w", g.UUID, errors.Join(ctx.Err(), err))
		}
		if err == nil && len(users) > 0 {
			return fmt.Errorf("GPU %s is in use by %s: end them, then it can be reset", g.UUID, process.Names(t.cfg.host.Procfs, users...))
		}
	}
	return nil
}

// sound is an error unless there is evidence that nothing is wrong with the device.
func (f *found) sound(id string) error {
	d := f.devices[id]
	switch {
	case f.away != nil:
		return f.away
	case d == nil && f.gpus[id].UUID == "":
		return errors.New("the device is gone: a reset ends the MIG devices of a GPU; make them again")
	case d == nil:
		return errors.New("the device is not listed any more")
	case !d.GetHealth().GetRecovered():
		return errors.New(wrong(d.GetHealth()))
	}
	return nil
}

// wrong says what is wrong.
func wrong(h *sdk.Health) string {
	if h.GetMessage() == "" {
		return "there is no evidence that the GPU is sound"
	}
	return h.GetMessage()
}
