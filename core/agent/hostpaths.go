package agent

import (
	"fmt"
	"path/filepath"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// HostPaths are the host's trees as this process sees them, all absolute: the contract
// with the backends has no other. Empty ones are the usual places.
type HostPaths struct {
	Sysfs, Devfs, Procfs string
}

// check refuses what every backend would refuse.
func (h HostPaths) check() error {
	for _, p := range []struct{ flag, path string }{{"--sysfs", h.Sysfs}, {"--devfs", h.Devfs}, {"--procfs", h.Procfs}} {
		if !filepath.IsAbs(p.path) {
			return fmt.Errorf("%s is %q: it must be an absolute path", p.flag, p.path)
		}
	}
	return nil
}

// wire is what backends are told.
func (h HostPaths) wire() *backendv1.HostPaths {
	return &backendv1.HostPaths{Sysfs: h.Sysfs, Devfs: h.Devfs, Procfs: h.Procfs}
}
