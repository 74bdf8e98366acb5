package manager

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// Settings define how bitstreams get into the kernel.
type Settings struct {
	// Firmware is this process's path of the directory in which the kernel searches for
	// firmware: in a container the directory at which the host's is mounted. The kernel gets
	// names of files in it, never a path.
	Firmware string `json:"firmware"`
	// Flags are those of programming, written to the manager's file of that name: 1 for
	// partial reconfiguration, else see FPGA_MGR_* in include/linux/fpga/fpga-mgr.h of
	// the kernel. A manager with several regions can be programmed with 1 only.
	Flags uint32 `json:"flags"`
	// Write writes a text to a file of sysfs, and returns when the kernel has done the request;
	// nil for the system's.
	Write func(file, text string) error `json:"-"`
}

// Defaults returns the firmware directory of most systems, and full reconfiguration.
func Defaults() Settings { return Settings{Firmware: "/lib/firmware"} }

// partial is FPGA_MGR_PARTIAL_RECONFIG.
const partial = 1

// Driver is Linux's FPGA subsystem.
type Driver struct {
	sysfs    string
	settings Settings
}

var _ driver.Driver = (*Driver)(nil)

// New returns the driver of a host.
func New(host sdk.HostPaths, settings Settings) *Driver {
	if settings.Write == nil {
		settings.Write = sysfs.Write
	}
	return &Driver{sysfs: filepath.Clean(host.Sysfs), settings: settings}
}

// Name returns fpga-manager.
func (d *Driver) Name() string { return "fpga-manager" }

// Holds returns false: the kernel does not report what is loaded.
func (d *Driver) Holds(driver.Region, *bitstream.File) bool { return false }

// ErrNoReset means that Linux has no reset of FPGAs.
var ErrNoReset = errors.New("there is no reset of an FPGA under Linux's fpga_manager")

// Reset returns an error: an FPGA can only be programmed again.
func (d *Driver) Reset(_ context.Context, c driver.Card, r driver.Region) (string, error) {
	return "", fmt.Errorf("region %s of %s: %w: program it again, or restart the node", r.ID, c.ID, ErrNoReset)
}
