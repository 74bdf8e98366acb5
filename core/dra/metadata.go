package dra

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/accelmux/accelmux/core/dra/claim"
)

// metadataDir is where kubeletplugin writes the files of the option Metadata for a driver: a
// directory <namespace>_<name> for each claim. Each of its requests also has a CDI spec
// <driver>_metadata_<UID>_<request>.json.
func metadataDir(kubeletRootDir, driver string) string {
	return filepath.Join(kubeletRootDir, "plugins", driver, "dra-device-metadata")
}

// endClaim ends a claim, and removes its files of the option Metadata, for which kubeletplugin has no
// call: it removes them when kubelet unprepares the claim. c is nil for a claim whose file cannot be
// read: its directory stays, as its name is not known. The devices are released even if a file cannot be
// removed.
func (r *Reconciler) endClaim(i claim.ID, c *claim.Claim) error {
	files, err := filepath.Glob(filepath.Join(r.opts.CDIDir, fmt.Sprintf("%s_metadata_%s_*.json", i.Driver, i.UID)))
	errs := []error{err}
	if c != nil { // another claim of the name may have been prepared since
		errs = append(errs, r.opts.Record.WhileUnnamed(c, func() error {
			return os.RemoveAll(filepath.Join(metadataDir(r.opts.KubeletRootDir, i.Driver), c.Namespace+"_"+c.Name))
		}))
	}
	for _, path := range files {
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(append(errs, endClaim(r.opts.Record, r.opts.Lifecycle, i.Driver, i.UID))...)
}
