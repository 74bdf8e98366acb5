package edits

import (
	"slices"
	"time"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/accelmux/accelmux/backends/sdk"
)

// filesLife limits the reuse of the list of the driver's files. A missing file is noticed
// whenever edits are made, an additional file after this time at the latest.
// Searching the files takes most of the CPU that an idle node uses.
const filesLife = 10 * time.Minute

// files is the list of the driver's files. It never changes.
type files struct {
	edits   *sdk.Edits
	version string
	at      places
	here    []string // their paths, as this process sees them
	// logged has the toolkit's messages about them.
	logged map[string]bool
	until  time.Time
}

// hold reports whether the list is still valid for a driver of this version; nil is
// not.
func (f *files) hold(version string, at places, now time.Time) bool {
	return f != nil && f.version == version && f.at == at && now.Before(f.until) &&
		!slices.ContainsFunc(f.here, func(path string) bool { return !exists(path) })
}

// paths returns the paths of the files and nodes in edits of nvcdi, which have not been
// converted yet.
func paths(e *specs.ContainerEdits) []string {
	var all []string
	for _, m := range e.Mounts {
		all = append(all, m.HostPath)
	}
	for _, d := range e.DeviceNodes {
		if d.HostPath != "" {
			all = append(all, d.HostPath)
		} else {
			all = append(all, d.Path)
		}
	}
	return all
}
