// Package process has what several backends do with processes that a driver reports: their names in messages, and a setting
// for those that an earlier container has left on its device. It does not find them.
package process

import (
	"fmt"
	"log/slog"

	"github.com/accelmux/accelmux/backends/sdk"
)

// Leftovers is a setting: what is done about processes that an earlier container has left on its
// device.
type Leftovers string

// The values of the setting; "" means Ignore.
const (
	Ignore Leftovers = "ignore"
	// Report logs them.
	Report Leftovers = "report"
	// Fail refuses to start the container. All processes must be visible for that.
	Fail Leftovers = "fail"
)

// Check adds errors of the setting, whose path is at.
func (l Leftovers) Check(at, procfs string, errs *sdk.FieldErrors) {
	if l == Fail && !seesAll(procfs) {
		errs.Add(at, "fail needs to see all processes of the node: run in the host's PID namespace (hostPID), or use report")
	}
}

// Wanted reports whether leftovers are searched for.
func (l Leftovers) Wanted() bool { return l == Report || l == Fail }

// Judge handles the processes that were found on a device before a container starts with it, as [Named] returns them; err
// is why they are unknown. With [Fail] it returns an error for both, otherwise it logs them. The
// log names the device.
func (l Leftovers) Judge(log *slog.Logger, found string, err error) error {
	switch {
	case err != nil && l == Fail:
		return fmt.Errorf("whether it still has processes of an earlier container is not known: %w", err)
	case err != nil && l.Wanted():
		log.Warn("whether processes were left behind is not known", "error", err)
	case found == "" || !l.Wanted():
	case l == Fail:
		return fmt.Errorf("it is still used by processes that are not the container's: %s; end them", found)
	default:
		log.Warn("processes use the device before its container starts", "processes", found)
	}
	return nil
}
