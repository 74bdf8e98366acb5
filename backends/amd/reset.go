package amd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
)

// answerLimit is how long GPUs may take to answer after their reset.
const answerLimit = 30 * time.Second

// Reset implements [sdk.Resetter].
func (b *Backend) Reset(ctx context.Context, ids []string) ([]*sdk.ResetResult, error) {
	ctx, cancel := sdk.InTime(ctx)
	defer cancel()
	t, err := b.find(ctx, ids)
	if err == nil {
		err = errors.Join(t.Missing(), t.Alone())
	}
	var done string
	var seen found
	if err == nil {
		done, seen, err = b.reset(ctx, t)
	}
	if err == nil {
		b.log.Info("GPUs were reset", "devices", ids, "how", done)
	}
	return sdk.ResetResults(b.log, ids, done, func(id string) error { return seen.sound(id, true) }, err), nil
}

// reset resets all GPUs of the targets' group, and says what was done and what the
// loop found then. An error may also mean that the reset was done and did not help.
func (b *Backend) reset(ctx context.Context, t *targets) (done string, seen found, err error) {
	if err := b.expect(ctx, t, time.Now().Add(resetLimit)); err != nil {
		return "", nil, err
	}
	done, err = t.cfg.reset.Reset(ctx, b.resetter, t.cfg.host, t.toReset())
	if err != nil {
		// It was refused, or nobody knows what became of it: the GPUs are judged as before.
		sure, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		return "", nil, errors.Join(err, b.expect(sure, t, time.Time{}))
	}
	limited, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	if seen, err = b.lookNow(limited, t.ids(), true); err != nil {
		return "", nil, fmt.Errorf("the reset was done, but not all GPUs answer after it: %w (%s)", err, done)
	}
	return done, seen, nil
}

// expect keeps the GPUs of the group in place, whatever is seen of them meanwhile,
// until a reset must be over; zero ends that.
func (b *Backend) expect(ctx context.Context, t *targets, until time.Time) error {
	_, err := sdk.InLoop(ctx, b.asks, func(l *loop) bool {
		for _, known := range l.records(t.ids()) {
			known.resetting, known.resetBy = time.Time{}, until
			if !until.IsZero() {
				known.resetting, known.fresh = time.Now(), false
			}
		}
		return true
	})
	return err
}
