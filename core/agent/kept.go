package agent

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/profile"
)

// loadFirst loads the configuration to start with: the file's, or, if that can't
// be used, the one that was in force last with the same file. Then refused says
// why the file is not taken.
func (a *Agent) loadFirst() (refused, err error) {
	a.file = config.Read(a.opts.ConfigPath)
	unusable := a.usable(a.file)
	if unusable == nil {
		a.loaded, a.source = a.file.Config, a.file.Data
		return nil, nil
	}
	data, err := a.keeper.Kept()
	if errors.Is(err, fs.ErrNotExist) {
		if errors.Is(unusable, fs.ErrNotExist) {
			unusable = fmt.Errorf("%w: write one, or name yours with --config", unusable)
		}
		return nil, unusable
	}
	kept := config.Event{Data: data}
	if err == nil {
		kept.Config, kept.Err = config.Parse("kept of "+a.opts.ConfigPath, data)
		err = a.usable(kept)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; nor can the configuration that was in force before be used: %w", unusable, err)
	}
	a.loaded, a.source = kept.Config, kept.Data
	return unusable, nil
}

// usable says why the agent can't go by a configuration; nil if it can.
func (a *Agent) usable(event config.Event) error {
	if event.Err != nil || !a.fixed() {
		return event.Err
	}
	if _, err := profile.Named(event.Config, a.opts.Profile); err != nil {
		return fmt.Errorf("%s: %w", a.opts.ConfigPath, err)
	}
	return nil
}

// take takes on a new configuration, or notes why not.
func (a *Agent) take(event config.Event) {
	if err := a.usable(event); err != nil {
		a.refuseFile(err)
		return
	}
	a.plans.refuse(nil)
	a.loaded, a.source = event.Config, event.Data
	a.choose()
}

// refuseFile says why the configuration file is not taken on.
func (a *Agent) refuseFile(err error) {
	a.log.Error("configuration refused, the last good one stays in force", "path", a.opts.ConfigPath, "error", err)
	a.events.Record(events.ConfigurationRefused, "the configuration is refused, the last good one stays in force: %v", err)
	a.plans.refuse(err)
}
