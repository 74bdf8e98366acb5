package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
)

// answerLimit is how long devices may take to answer after their reset.
const answerLimit = 30 * time.Second

// Reset resets devices, for [sdk.Resetter]. It is refused if it would reach devices that
// are not among them.
func (e *Engine) Reset(ctx context.Context, devices []string) ([]*sdk.ResetResult, error) {
	ctx, cancel := sdk.InTime(ctx)
	defer cancel()
	t, err := e.Find(ctx, devices)
	if err == nil {
		err = errors.Join(t.Missing(), t.Alone())
	}
	var done string
	var seen Seen
	if err == nil {
		done, seen, err = e.ResetTargets(ctx, t.Devices)
	}
	if err == nil {
		e.options.Log.Info("devices were reset", "devices", devices, "how", done)
	}
	return sdk.ResetResults(e.options.Log, devices, done, func(id string) error { return seen.Healthy(id, true) }, err), nil
}

// ResetTargets resets devices of [Engine.Find], one reset group after the other, and returns
// what was done and what a scan found then. After an error the reset may have been done
// without success.
func (e *Engine) ResetTargets(ctx context.Context, targets []Target) (done string, seen Seen, err error) {
	var all []string
	for i, t := range targets {
		sameGroup := func(other Target) bool {
			return other.Device.ID == t.Device.ID || t.Device.ResetGroup != "" && other.Device.ResetGroup == t.Device.ResetGroup
		}
		if slices.ContainsFunc(targets[:i], sameGroup) {
			continue // reset with an earlier one
		}
		group := slices.DeleteFunc(slices.Clone(targets), func(other Target) bool { return !sameGroup(other) })
		how, err := e.resetGroup(ctx, group)
		if err != nil {
			return "", Seen{}, err
		}
		all = append(all, how)
	}
	done = strings.Join(all, "; ")
	limited, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	if seen, err = e.Scan(limited, true, ids(targets)...); err != nil {
		return "", Seen{}, fmt.Errorf("the reset was done, but not all of the devices answer after it: %w (%s)", err, done)
	}
	return done, seen, nil
}

// resetGroup enters the boards of the targets, which are one reset group, and resets them.
func (e *Engine) resetGroup(ctx context.Context, targets []Target) (done string, err error) {
	var units, names []string
	for _, t := range targets {
		units, names = append(units, t.Board...), append(names, t.Device.Name)
	}
	if e.options.ExclusiveReset {
		all, err := sdk.InLoop(ctx, e.asks, func(l *loop) []string { return l.unitsBeside(targets) })
		if err != nil {
			return "", err
		}
		units = append(units, all...)
	}
	leave, err := e.Enter(ctx, units...)
	if err != nil {
		return "", err
	}
	words := make(chan string, 1)
	err = e.Run(ctx, targets, leave, Operation{
		What: strings.Join(names, ", ") + " is being reset", Reset: true, exclusive: e.options.ExclusiveReset,
		Do: func(ctx context.Context) error {
			done, err := targets[0].Driver.Reset(ctx, targets)
			words <- done
			return err
		},
	})
	if err != nil {
		return "", err
	}
	return <-words, nil
}

// unitsBeside returns the IDs of the units that the drivers of the targets have.
func (l *loop) unitsBeside(targets []Target) []string {
	var all []string
	for _, known := range l.roster.sorted() {
		if slices.ContainsFunc(targets, func(t Target) bool { return t.Driver.Name() == known.Driver().Name() }) {
			all = append(all, known.Unit.ID)
		}
	}
	return all
}
