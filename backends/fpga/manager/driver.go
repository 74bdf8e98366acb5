package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Settings say how a kernel is given bitstreams.
type Settings struct {
	// Firmware is the directory in which the kernel looks for firmware, where this
	// process has it: in a container the place where the host's is mounted. The kernel
	// is told names of files in it, never a path.
	Firmware string `json:"firmware"`
	// Flags are those of programming, written to the manager's file of that name: 1 for
	// partial reconfiguration, else see FPGA_MGR_* in include/linux/fpga/fpga-mgr.h of
	// the kernel. A manager with several regions can be programmed with 1 only.
	Flags uint32 `json:"flags"`
	// Write writes a text to a file of sysfs, and returns when the kernel has done what
	// it asks for; nil for the system's.
	Write func(file, text string) error `json:"-"`
}

// Defaults are where most systems have firmware, and full reconfiguration.
func Defaults() Settings { return Settings{Firmware: "/lib/firmware"} }

// Check adds what is wrong with the settings, which stand at a path.
func (s Settings) Check(at string, errs *sdk.FieldErrors) {
	if !filepath.IsAbs(s.Firmware) || filepath.Clean(s.Firmware) != s.Firmware {
		errs.Add(at+".firmware", "%q is no absolute path without . and ..: /lib/firmware is usual", s.Firmware)
	}
	if s.Flags > maxFlags {
		errs.Add(at+".flags", "%#x has bits that no kernel knows: %#x is the most", s.Flags, maxFlags)
	}
}

// maxFlags are all that AMD's kernel knows of.
const maxFlags = 0x1ff

// partial is FPGA_MGR_PARTIAL_RECONFIG.
const partial = 1

// Driver is Linux's FPGA subsystem.
type Driver struct {
	sysfs    string
	settings Settings
	// programming keeps programs of two regions of one manager apart.
	programming sync.Mutex
}

var _ driver.Driver = (*Driver)(nil)

// New is the driver of a host.
func New(host sdk.HostPaths, settings Settings) *Driver {
	if settings.Write == nil {
		settings.Write = write
	}
	return &Driver{sysfs: filepath.Clean(host.Sysfs), settings: settings}
}

// write is one write to a file that is there.
func write(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Name is fpga-manager.
func (d *Driver) Name() string { return "fpga-manager" }

// Holds is false: the kernel does not say what is loaded.
func (d *Driver) Holds(driver.Region, *bitstream.File) bool { return false }

// ErrNoReset means that Linux has no reset of FPGAs.
var ErrNoReset = errors.New("there is no reset of an FPGA under Linux's fpga_manager")

// Reset is an error: programming again is what there is.
func (d *Driver) Reset(_ context.Context, c driver.Card, r driver.Region) (string, error) {
	return "", fmt.Errorf("region %s of %s: %w: program it again, or restart the node", r.ID, c.ID, ErrNoReset)
}
