package manager

import (
	"fmt"
	"strings"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

// operating is the state of a manager whose FPGA is programmed and works.
const operating = "operating"

// untouched are the states of a manager that has failed before it did anything to the
// FPGA.
var untouched = map[string]bool{"firmware request error": true, "parse header error": true}

// states are a manager's states that are no errors
// (Documentation/ABI/testing/sysfs-class-fpga-manager). They do not include what is loaded:
// operating is unreported, as is unknown, which many managers report until they program.
var states = map[string]driver.State{
	"unknown": driver.Unreported, operating: driver.Unreported,
	"power off": driver.Unloaded, "power up": driver.Unloaded, "reset": driver.Unloaded,
	"firmware request": driver.Busy, "parse header": driver.Busy, "write init": driver.Busy, "write": driver.Busy,
	"write complete": driver.Busy,
}

// again is what to do about an FPGA that was not programmed well.
const again = "program it again, or restart the node (Linux has no reset of an FPGA)"

// judge returns what a state means. files: the manager is programmed by files, and
// not through regions: then one that failed before it did anything leaves the FPGA as
// it was. Through a region the kernel has closed its bridges by then, and leaves them.
// known is false for a state that is in no kernel.
func judge(state string, files bool) (s driver.State, faults []driver.Fault, known bool) {
	if s, known = states[state]; known {
		if state == "power off" {
			faults = append(faults, driver.Fault{
				Code: "power-off", Cause: "power-off", Recovery: sdk.RecoverySelf,
				Text: "its power is off, as the manager's file state shows: see what switches it",
			})
		}
		return s, faults, true
	}
	if !strings.HasSuffix(state, " error") {
		return driver.Unreported, nil, false
	}
	if files && untouched[state] {
		return driver.Unreported, nil, true
	}
	code := clip(slug(state), 63)
	return driver.Unreported, []driver.Fault{{
		Code: code, Cause: code, Recovery: sdk.RecoverySelf,
		Text: fmt.Sprintf("it was not programmed: the manager's file state is %q, and what is in the FPGA is not known: %s", state, again),
	}}, true
}

// asleep are errors in the file status of an FPGA that was not programmed: no failure, unless
// its state is operating.
var asleep = map[string]bool{
	"initialization has not finished": true, "all I/Os are placed in High-Z state": true, "start-up sequence has not finished": true,
}

// maxStatus is how many errors a manager can have: the kernels know 11.
const maxStatus = 32

// judgeStatus returns what the file status of a manager means, a line for each error, by the
// state at the same time.
func judgeStatus(status, state string, files bool) ([]driver.Fault, error) {
	if states[state] == driver.Busy {
		return nil, nil // of the time before
	}
	lines := strings.FieldsFunc(status, func(c rune) bool { return c == '\n' || c == '\x00' })
	if len(lines) > maxStatus {
		return nil, fmt.Errorf("it has %d lines, want %d at most", len(lines), maxStatus)
	}
	var faults []driver.Fault
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" || asleep[line] && state != operating || files && untouched[line] {
			continue
		}
		f := driver.Fault{
			Code: clip(slug(line), 63), Recovery: sdk.RecoverySelf,
			Text: fmt.Sprintf("the manager's file status is %q: %s", clipText(line), again),
		}
		if line == "device internal signal error" {
			f.Recovery = sdk.RecoveryReboot
			f.Text = fmt.Sprintf("the manager's file status is %q: restart the node; if it comes again, the FPGA may be broken", line)
		}
		f.Cause = f.Code
		faults = append(faults, f)
	}
	return faults, nil
}

// clipText returns a line as a fault quotes it.
func clipText(line string) string {
	if len(line) <= 100 {
		return line
	}
	return strings.ToValidUTF8(line[:100], "") + "…"
}
