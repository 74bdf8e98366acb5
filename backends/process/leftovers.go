package process

import "github.com/accelmux/accelmux/backends/sdk"

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
