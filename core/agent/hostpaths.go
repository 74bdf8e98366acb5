package agent

import (
	"fmt"
	"path/filepath"

	"github.com/accelmux/accelmux/core/inventory"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// HostPaths are the host's trees as this process sees them, as absolute paths: the contract
// with the backends demands it. An empty path stands for the usual one.
type HostPaths struct {
	Sysfs, Devfs, Procfs string
}

// check refuses paths that every backend would refuse.
func (h HostPaths) check() error {
	for _, p := range []struct{ flag, path string }{{"--sysfs", h.Sysfs}, {"--devfs", h.Devfs}, {"--procfs", h.Procfs}} {
		if !filepath.IsAbs(p.path) {
			return fmt.Errorf("%s is %q: it must be an absolute path", p.flag, p.path)
		}
	}
	return nil
}

// nodes gives access to the host's device nodes.
func (h HostPaths) nodes() inventory.HostNodes { return inventory.HostNodes{Devfs: h.Devfs} }

// wire returns the paths as backends get them.
func (h HostPaths) wire() *backendv1.HostPaths {
	return &backendv1.HostPaths{Sysfs: h.Sysfs, Devfs: h.Devfs, Procfs: h.Procfs}
}
