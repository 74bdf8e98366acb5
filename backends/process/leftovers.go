package process

import (
	"fmt"
	"log/slog"

	"github.com/accelmux/accelmux/backends/sdk"
)

// Leftovers is a setting: what is done about processes that a container before has
// left on its device.
type Leftovers string

// What is done; nothing said is Ignore.
const (
	Ignore Leftovers = "ignore"
	// Report has them in the log.
	Report Leftovers = "report"
	// Fail has the container not start. It needs to see all processes.
	Fail Leftovers = "fail"
)

// Check adds what is wrong with the setting, which stands at a path.
func (l Leftovers) Check(at, procfs string, errs *sdk.FieldErrors) {
	switch l {
	case "", Ignore, Report:
	case Fail:
		if !SeesAll(procfs) {
			errs.Add(at, "fail needs to see all processes of the node: run in the host's PID namespace (hostPID), or use report")
		}
	default:
		errs.Add(at, "%q is none: ignore, report or fail", l)
	}
}

// Wanted reports whether they are looked for.
func (l Leftovers) Wanted() bool { return l == Report || l == Fail }

// Judge is what becomes of the processes that were found on a device before a
// container starts with it; err is why nobody knows of any. With [Fail] both are an
// error, else they are in the log, which names the device.
func (l Leftovers) Judge(log *slog.Logger, procfs string, pids []int, err error) error {
	switch {
	case err != nil && l == Fail:
		return fmt.Errorf("whether it still has processes of an earlier container is not known: %w", err)
	case err != nil && l.Wanted():
		log.Warn("whether processes were left behind is not known", "error", err)
	case len(pids) == 0 || !l.Wanted():
	case l == Fail:
		return fmt.Errorf("it is still used by processes that are not the container's: %s; end them", Names(procfs, pids...))
	default:
		log.Warn("processes use the device before its container starts", "processes", Names(procfs, pids...))
	}
	return nil
}
