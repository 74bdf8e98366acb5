package edits

import (
	"slices"
	"time"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/accelmux/accelmux/backends/sdk"
)

// filesLife is how long the driver's files are kept. That each is there is seen
// whenever edits are made; that there are more of them after this time at the latest.
// To look for them takes most of the CPU that a node uses on which nothing happens.
const filesLife = 10 * time.Minute

// files are the driver's files that were found. They never change.
type files struct {
	edits   *sdk.Edits
	version string
	at      places
	here    []string // their paths, as this process sees them
	// said is what the toolkit said of them.
	said  map[string]bool
	until time.Time
}

// hold reports whether they are still those of a driver of this version; nil ones do
// not.
func (f *files) hold(version string, at places, now time.Time) bool {
	return f != nil && f.version == version && f.at == at && now.Before(f.until) &&
		!slices.ContainsFunc(f.here, func(path string) bool { return !exists(path) })
}

// paths are those of the files and nodes in edits of nvcdi, which have not been
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
