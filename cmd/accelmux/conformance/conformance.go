package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/hostfs"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/manifest"
	"github.com/accelmux/accelmux/core/sandbox"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Options are the program to check, and how.
type Options struct {
	// Program is the path of the backend's executable.
	Program string
	// Env are environment variables of the program, beside those of the handshake.
	Env map[string]string
	// Settings is one JSON object that the backend must accept. Default "{}".
	Settings json.RawMessage
	// HostPaths are the roots of the host's trees. Default /sys, /dev and /proc.
	HostPaths HostPaths
	// Exercise also checks Prepare, Release and Reset: it calls them for devices of the
	// inventory, and disturbs containers that use these.
	Exercise bool
	// HardwareChange is a shell command that changes the hardware; "" skips the rule.
	HardwareChange string
	// Sandbox is sandbox.Off, or sandbox.Auto (default): as the agent starts the program.
	Sandbox sandbox.Mode
	// Allowed is given to the program in its sandbox beside what its manifest has.
	Allowed sandbox.Needs
	Timing  Timing
}

// HostPaths are the absolute roots of the host's trees.
type HostPaths struct{ Sysfs, Devfs, Procfs string }

// host gives the core access to them.
func (p HostPaths) host() inventory.Host {
	return inventory.Host{Host: hostfs.Host{Devfs: p.Devfs, Sysfs: p.Sysfs, Procfs: p.Procfs}}
}

// Timing are the limits. Zero means the default, which is the contract's limit if it has one.
// Tests set shorter ones.
type Timing struct {
	// Start is how long the handshake may take. Default 10s.
	Start time.Duration
	// Configure, Prepare (also for Release) and Reset are the deadlines of the calls. Default 10s, 25s, 2m.
	Configure, Prepare, Reset time.Duration
	// Inventory is how long the first inventory of a stream, and one after accepted
	// settings, may take. Default 10s.
	Inventory time.Duration
	// Heartbeat is the interval that WatchRequest asks for. Default 1s.
	Heartbeat time.Duration
	// Silence is how long a Watch stream may have no message. Default three intervals of heartbeats.
	Silence time.Duration
	// Sample is the interval that SampleRequest asks for; at least 1s. Default 1s.
	Sample time.Duration
	// Abandon is the pause after a cancelled call. Default 5s.
	Abandon time.Duration
	// Change is how long an inventory may take after the hardware changed. Default 30s.
	Change time.Duration
	// Hang is how long to wait until the program opens a file that hangs. Default 15s.
	Hang time.Duration
	// Terminate is how long the program may run after SIGTERM, Orphan after its parent has
	// died. Default 2s, 5s.
	Terminate, Orphan time.Duration
}

func (t Timing) withDefaults() Timing {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&t.Start, 10 * time.Second}, {&t.Configure, 10 * time.Second},
		{&t.Prepare, 25 * time.Second}, {&t.Reset, 2 * time.Minute}, {&t.Inventory, 10 * time.Second},
		{&t.Heartbeat, time.Second}, {&t.Silence, missedBeats * cmp.Or(max(t.Heartbeat, 0), time.Second)}, {&t.Sample, time.Second}, {&t.Abandon, 5 * time.Second},
		{&t.Change, 30 * time.Second}, {&t.Hang, 15 * time.Second},
		{&t.Terminate, 2 * time.Second}, {&t.Orphan, 5 * time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return t
}

// check is one run of Check.
type check struct {
	Options
	verdicts
	timing Timing
	dir    string // for sockets and roots without hardware
	// manifest is the program's, and described and rights are what it comes to for the settings.
	manifest  *manifest.Manifest
	described inventory.Description
	rights    manifest.Rights
	// given is what the program gets in its sandbox, free and freeMetrics what it reports without one, and report
	// what was in force at the last start in it.
	given                sandbox.Needs
	free                 *backendv1.Inventory
	freeMetrics, metrics map[string]bool // by name and device
	report               sandbox.Report

	// resetGroup are the devices of a Reset in the sandbox that did not recover all, and unrecovered those that it did not
	// recover, with its messages.
	resetGroup  []string
	unrecovered map[string]string

	listing sync.Mutex
	// order are the IDs of the previous inventory, used what edits have contained.
	order []string
	used  inventory.EditScope
}

// Check checks the program. The report has all rules, also if ctx ends early. An error means
// that the program could not be checked: it does not exist or cannot be executed, or ctx ended.
// No process of the program runs when Check returns.
func Check(ctx context.Context, options Options) (Report, error) {
	c := &check{Options: options, timing: options.Timing.withDefaults()}
	c.over = func() bool { return ctx.Err() != nil }
	if len(c.Settings) == 0 {
		c.Settings = json.RawMessage("{}")
	}
	for _, root := range []struct {
		path           *string
		flag, fallback string
	}{{&c.HostPaths.Sysfs, "--sysfs", "/sys"}, {&c.HostPaths.Devfs, "--devfs", "/dev"}, {&c.HostPaths.Procfs, "--procfs", "/proc"}} {
		*root.path = cmp.Or(*root.path, root.fallback)
		if !filepath.IsAbs(*root.path) {
			return Report{}, fmt.Errorf("%s %s: give an absolute path", root.flag, *root.path)
		}
	}
	var err error
	if c.Program, err = filepath.Abs(c.Program); err != nil {
		return Report{}, fmt.Errorf("find the program: %w", err)
	}
	if err := programError(c.Program); err != nil {
		return Report{}, err
	}
	if err := c.readManifest(ctx); err != nil {
		return Report{}, err
	}
	if c.dir, err = os.MkdirTemp("", "accelmux-check-"); err != nil {
		return Report{}, fmt.Errorf("make a directory for sockets: %w", err)
	}
	defer func() { _ = os.RemoveAll(c.dir) }()
	if err := os.Chmod(c.dir, 0o711); err != nil { //nolint:gosec // the program's user must pass through
		return Report{}, fmt.Errorf("open the directory for sockets: %w", err)
	}
	rest, err := c.run(ctx)
	report := Report{Program: c.Program, Name: c.described.Name, Version: c.described.Version, Sandbox: c.report, Results: c.results(rest)}
	if containers := c.rights.Containers; !containers.Empty() {
		report.Containers = containers.YAML()
		if unused := containers.Unused(c.used); len(c.order) > 0 && !unused.Empty() {
			report.Unused = unused.YAML()
		}
	}
	if !c.given.Empty() {
		report.Process = c.given.YAML()
	}
	return report, err
}

// run starts the program for each group of rules. rest is the reason for rules that were not
// checked.
func (c *check) run(ctx context.Context) (rest string, err error) {
	for _, part := range []func(context.Context) error{c.byHand, c.unrestricted, c.live, c.resetsFreely, c.restart, c.unseen, c.hang} {
		err := part(ctx)
		var stopped stopError
		switch {
		case ctx.Err() != nil:
			return "the check was cancelled before", fmt.Errorf("the check was cancelled: %w", context.Cause(ctx))
		case errors.Is(err, errStart):
			return "the connection to the program failed", nil
		case errors.As(err, &stopped):
			return "not reached: " + stopped.Error(), nil
		case err != nil:
			return "the check failed", err
		}
	}
	return "the check never reached it with this backend", nil
}

// stopError is why the check stops early; a verdict reports it, too.
type stopError struct{ error }
