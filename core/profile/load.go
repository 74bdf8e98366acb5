package profile

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/accelmux/accelmux/core/config"
)

// Loaded is the configuration that an agent starts with.
type Loaded struct {
	// File is the configuration file as it was found; for config.NewWatcher.
	File   config.Event
	config *config.NodeConfig
	source []byte
	// refused is why the file is not used; nil if it is.
	refused error
}

// Load loads the configuration file at path, or, if that cannot be used, the configuration
// that was in force last with the same file. name and check are those of [SwitchOptions]. The error
// names what is wrong with both.
func Load(path, name string, byLabels bool, check func(config.Event) error, memory *Memory) (Loaded, error) {
	file := config.Read(path)
	refused := usable(file, path, name, byLabels, check)
	if refused == nil {
		return Loaded{File: file, config: file.Config, source: file.Data}, nil
	}
	before, err := stored(path, memory)
	if errors.Is(err, fs.ErrNotExist) {
		if errors.Is(refused, fs.ErrNotExist) {
			refused = fmt.Errorf("%w: write one, or name yours with --config", refused)
		}
		return Loaded{}, refused
	}
	if err == nil {
		// Without the check: it was in force, and what another manifest refuses of it now is its backend's problem alone.
		err = usable(config.Event{Config: before.config}, path, name, byLabels, nil)
	}
	if err != nil {
		return Loaded{}, fmt.Errorf("%w; the configuration that was in force before cannot be used either: %w", refused, err)
	}
	before.File, before.refused = file, refused
	return before, nil
}

// stored returns the configuration of the file at path that was in force last. The error is that of [Memory.Configuration] or of
// [config.Parse].
func stored(path string, memory *Memory) (Loaded, error) {
	data, err := memory.Configuration()
	if err != nil {
		return Loaded{}, err
	}
	c, err := config.Parse("stored copy of "+path, data)
	return Loaded{config: c, source: data}, err
}

// usable returns why a configuration cannot be used; nil if it can.
func usable(event config.Event, path, name string, byLabels bool, check func(config.Event) error) error {
	if event.Err != nil {
		return event.Err
	}
	if !byLabels {
		if _, err := Named(event.Config, name); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if check == nil {
		return nil
	}
	return check(event)
}
