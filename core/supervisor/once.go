package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/sandbox"
)

// Describe starts the program of a spec, calls Describe, ends it, and returns its description with
// the schema of its settings. It
// uses BackendDir, Log, Timing and Reaper of the options; the socket is in a directory of its own in
// RunDir, which must exist ("" is that of temporary files). The settings, the heartbeat and companions
// of the spec are not used: the backend is not configured. It returns within Timing.Start,
// Timing.Describe and the time that a process may take to end. The error is for the operator.
func Describe(ctx context.Context, o Options, spec Spec) (inventory.Description, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	backendDir, err := filepath.Abs(o.BackendDir)
	if err != nil {
		return inventory.Description{}, fmt.Errorf("find the backend directory: %w", err)
	}
	dir, err := os.MkdirTemp(o.RunDir, "describe-")
	if err != nil {
		return inventory.Description{}, fmt.Errorf("make a directory for the backend's socket: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s := &Supervisor{backendDir: backendDir, socketDir: dir, log: o.Log, timing: o.Timing.withDefaults(), reaper: o.Reaper, paths: o.Paths, boxes: openBoxes(o, dir)}
	b := newBackend(s, spec.Name)
	close(b.done) // it has no goroutine
	i := &instance{backend: b, timing: &s.timing, spec: spec, log: b.log}
	i.given, _ = spec.Sandbox.Give(sandbox.Needs{})
	i.ctx, i.cancel = context.WithCancelCause(ctx)
	program, err := i.check()
	var schema string
	if err == nil {
		schema, err = i.introduce(program)
		program.close()
	}
	i.cancel(ErrClosed)
	if !i.end() {
		err = errors.Join(err, errors.New("its process did not end after SIGKILL"))
	}
	i.desc.SettingsSchema = schema
	return i.desc, err
}

// introduce starts the program and calls Describe.
func (i *instance) introduce(program *program) (settingsSchema string, err error) {
	if err := i.connect(program); err != nil {
		return "", err
	}
	return i.describe()
}
