package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Backend is what every backend implements.
type Backend interface {
	// Identity returns the backend's name and version, which are those of its manifest: see [Identity].
	Identity() (name, version string)
	// Watch is the loop that monitors the hardware: it publishes the devices whenever something
	// about them changed, and beats at least once in every [Reporter.Pace]. It gives the
	// Reporter to other methods that need it, such as for [Reporter.Scan], under a lock of the
	// backend's own. It runs until ctx ends; its result is ignored then. Hardware that cannot be
	// read is no reason to return: publish the known devices with a problem, and try again.
	Watch(ctx context.Context, out *Reporter) error
}

// Configurer is a backend with settings.
type Configurer interface {
	// Configure accepts the settings as a whole, or returns an error and continues with the
	// earlier ones. A [FieldErrors] names the invalid fields; any other error is about the
	// settings as a whole. Settings is one JSON object, {} for none, that the manifest's schema of
	// settings accepts: decode it by encoding/json, and check what no schema can say. Accepted settings
	// take effect at once: [Reporter.Reconfigured] notifies the loop. The core's deadline is 10
	// s.
	Configure(ctx context.Context, settings json.RawMessage, host HostPaths) error
}

// ErrParameters is wrapped by errors of Prepare for which the holder's parameters are to blame, and no device.
var ErrParameters = errors.New("the parameters are wrong")

// Preparer is a backend whose devices may list HOOK_PREPARE.
type Preparer interface {
	// Prepare prepares devices for a holder. It must be idempotent: a repeated call for the same
	// holder returns the same result. The result, by device ID, is added to the devices' own
	// edits, for this holder only; nil if there is nothing to add. An error fails the start, and
	// the user of the pod reads its text; see also [ErrParameters]. The call has the deadline of ctx, usually 25 s. When
	// ctx ends, Prepare must return at once: the next call for its devices may come 5 s later.
	// Calls for different devices may run in parallel. Edits must be among those of the manifest. By the
	// device plugin API they need a resource that is injected by CDI, otherwise they fail the
	// start. State that must outlive the process belongs into files below a path of the
	// settings.
	Prepare(ctx context.Context, p Preparation) (map[string]*Edits, error)
}

// Releaser is a backend whose devices may list HOOK_RELEASE.
type Releaser interface {
	// Release undoes what Prepare did for a holder. It is called at least once for each holder
	// that ends, possibly late, and also for a holder that was never prepared. It must be
	// idempotent, and succeed for an unknown holder or device. A device that another holder
	// still has is shared: Release must not do anything to it that disturbs that holder.
	//
	// Failed has the devices that were not released, and why; the others were. An error means
	// that none was. The core calls again for those that were not released. The deadline is as
	// for Prepare, and calls for different devices may run in parallel.
	Release(ctx context.Context, holder Holder, devices []HeldDevice) (failed map[string]error, err error)
}

// Resetter is a backend that can recover faulted devices.
type Resetter interface {
	// Reset resets the devices, all those of one reset group or a single one, and returns a
	// result for each. No container has them and, with inUse: core in the manifest, no process has
	// their nodes open. With inUse: backend Reset asks the driver for such processes, and does not reset
	// a device that has some. The core's deadline is 2 minutes; when ctx ends, Reset must return at
	// once, as Prepare must.
	Reset(ctx context.Context, devices []string) ([]*ResetResult, error)
}

// Sampler is a backend with telemetry.
type Sampler interface {
	// Sample reads the metrics of all devices. It returns at most 20,480, with at most 1,024
	// different sets of labels plus 256 for each device, and as many new sets again within an
	// hour. It is called once in every interval that the core requested, never twice at the same
	// time. An error ends the stream.
	Sample(ctx context.Context) ([]*Metric, error)
}

// Identity returns the name and the version in the text of a manifest: for [Backend.Identity] of a program that embeds its
// manifest, so that the two cannot differ. Each is "" if the text has no line for it.
func Identity(manifest string) (name, version string) {
	field := func(field string) string {
		for line := range strings.Lines(manifest) {
			if value, ok := strings.CutPrefix(line, field+":"); ok {
				value, _, _ = strings.Cut(value, " #")
				return strings.Trim(strings.TrimSpace(value), `"'`)
			}
		}
		return ""
	}
	return field("name"), field("version")
}

// HostPaths are the directories where to read the host's trees. A path that a backend reports in
// edits is the host's own, without these prefixes.
type HostPaths struct {
	Sysfs  string // usually /sys
	Devfs  string // usually /dev
	Procfs string // usually /proc
}

// hostPaths fills in the defaults; a relative path is an error.
func hostPaths(wire *backendv1.HostPaths) (HostPaths, error) {
	p := HostPaths{Sysfs: wire.GetSysfs(), Devfs: wire.GetDevfs(), Procfs: wire.GetProcfs()}
	for _, e := range []struct {
		path        *string
		name, usual string
	}{
		{&p.Sysfs, "sysfs", "/sys"},
		{&p.Devfs, "devfs", "/dev"},
		{&p.Procfs, "procfs", "/proc"},
	} {
		if *e.path == "" {
			*e.path = e.usual
		}
		if !filepath.IsAbs(*e.path) {
			return HostPaths{}, fmt.Errorf("host path %s is %q: it must be absolute", e.name, *e.path)
		}
	}
	return p, nil
}
