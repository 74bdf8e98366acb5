package dra

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/accelmux/accelmux/core/holders"
)

// metadataDir is where kubeletplugin writes the files of the option Metadata for a driver: a
// directory <namespace>_<name> for each claim. Each of its requests also has a CDI spec
// <driver>_metadata_<UID>_<request>.json.
func metadataDir(kubeletRootDir, driver string) string {
	return filepath.Join(kubeletRootDir, "plugins", driver, "dra-device-metadata")
}

// removeMetadata removes a claim's files of the option Metadata. kubeletplugin does that only when kubelet
// unprepares the claim, and only while the driver has the option. The directory of a claim without a name stays.
func removeMetadata(record *holders.Claims, kubeletRootDir, cdiDir string, c holders.Claim) error {
	files, err := filepath.Glob(filepath.Join(cdiDir, fmt.Sprintf("%s_metadata_%s_*.json", c.Driver, c.UID)))
	errs := []error{err}
	if c.Name != "" { // another claim of the name may have been prepared since
		errs = append(errs, record.WhileUnnamed(c, func() error {
			return os.RemoveAll(filepath.Join(metadataDir(kubeletRootDir, c.Driver), c.Namespace+"_"+c.Name))
		}))
	}
	for _, path := range files {
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(errs...)
}

// endClaim ends a claim, and removes its files of the option Metadata. A claim whose file cannot be
// read has no name. The devices are released even if a file cannot be removed.
func (r *Reconciler) endClaim(c holders.Claim) error {
	err := removeMetadata(r.opts.Record, r.opts.KubeletRootDir, r.opts.CDIDir, c)
	err = errors.Join(err, r.opts.Lifecycle.EndClaim(c.ID()))
	if err == nil {
		r.opts.Record.Finish(c.ID())
	}
	return err
}
