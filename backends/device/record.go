package device

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/accelmux/accelmux/backends/statefile"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// recordsDir has the records of prepared devices: a file each, by the device's ID. The agent's
// default directory for its state is above it.
const recordsDir = "/var/lib/accelmux/backends/device"

// record is what Prepare did to a device. It outlives this process, and counts until the next boot.
type record struct {
	Boot string `json:"boot"`
	// Done: all steps were done, for a holder that the device has. Without it Prepare failed, or was
	// cut off.
	Done bool `json:"done"`
	// Bindings are in the order in which they were made.
	Bindings []binding `json:"bindings"`
}

// records are those of all devices.
type records struct{ dir, procfs string }

func (r records) boot() (string, error) {
	return sysfs.Text(filepath.Join(r.procfs, "sys/kernel/random/boot_id"))
}

// load returns the record of a device; nil if there is none of this boot.
func (r records) load(id string) (*record, error) {
	boot, err := r.boot()
	if err != nil {
		return nil, err
	}
	text, err := statefile.Read(filepath.Join(r.dir, id))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 { // the node lost power after store
		return nil, nil
	}
	var found record
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	if err != nil {
		return nil, fmt.Errorf("the record of how it was before is not readable: %w", err)
	}
	if found.Boot != boot {
		return nil, nil
	}
	return &found, nil
}

// store replaces the record of a device at once. It is not synced: it does not count after a boot.
func (r records) store(id string, is *record) (err error) {
	if is.Boot, err = r.boot(); err != nil {
		return err
	}
	text, err := json.Marshal(is)
	if err == nil {
		err = statefile.Replace(filepath.Join(r.dir, id), text, 0o600, false)
	}
	if err != nil {
		return fmt.Errorf("the record of how it was before cannot be written, so nothing was done: %w", err)
	}
	return nil
}

func (r records) remove(id string) error {
	if err := os.Remove(filepath.Join(r.dir, id)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
