package fpga

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
)

// answerLimit is how long regions may take to answer after their reset.
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
		b.log.Info("FPGAs were reset", "devices", ids, "how", done)
	}
	return sdk.ResetResults(b.log, ids, done, func(id string) error { return seen.sound(id, true) }, err), nil
}

// reset resets the targets, one after the other, and says what was done and what the loop
// found then. An error may also mean that a reset was done and did not help.
func (b *Backend) reset(ctx context.Context, t *targets) (done string, seen found, err error) {
	var words, ids []string
	for _, device := range t.devices {
		leave, err := b.works.enter(ctx, device.card.ID)
		if err != nil {
			return "", found{}, err
		}
		how, err := b.resetRegion(ctx, t.loop, device, leave)
		if err != nil {
			return "", found{}, err
		}
		words, ids = append(words, how), append(ids, device.region.ID)
	}
	done = strings.Join(words, "; ")
	limited, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	if seen, err = b.lookNow(limited, true, ids...); err != nil {
		return "", found{}, fmt.Errorf("the reset was done, but not all FPGAs answer after it: %w (%s)", err, done)
	}
	return done, seen, nil
}

// resetRegion resets a region, whose card was entered; it is left when that is over.
func (b *Backend) resetRegion(ctx context.Context, l *loop, t target, leave func()) (done string, err error) {
	words := make(chan string, 1)
	err = b.work(ctx, l, t.region.ID, &task{what: t.name() + " is being reset", reset: true}, leave,
		func(ctx context.Context) error {
			done, err := t.driver.Reset(ctx, t.card, t.region)
			words <- done
			return err
		},
		func(r *region, err error) {
			if err == nil {
				l.renewed(r)
			}
		})
	if err != nil {
		return "", err
	}
	return <-words, nil
}

// renewed notes that a region was reset, and with it what its card had latched. That is
// evidence, too, for the others of the board that had no fault of their own.
func (l *loop) renewed(r *region) {
	program := r.program // a reset leaves what is loaded
	r.renew(r.of.by.begun)
	r.program = program
	for _, known := range l.roster.cards {
		if known.by != r.of.by || known.card.Board != r.of.card.Board {
			continue
		}
		for _, other := range known.regions {
			if other != r && !other.own && isFault(other.said) {
				other.renewed, other.renewedAt = true, r.of.by.begun
			}
		}
	}
}
