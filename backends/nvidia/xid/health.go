package xid

import (
	"fmt"
	"strconv"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

// remedies say to the operator what brings a GPU back.
var remedies = map[Verdict]string{
	Reset:   "reset the GPU (nvidia-smi --gpu-reset) when nothing uses it",
	Reboot:  "reboot the node",
	Replace: "check the board, its seat and its power, and replace it if that does not help",
}

var recoveries = map[Verdict]sdk.Recovery{
	Reset:   sdk.RecoveryReset,
	Reboot:  sdk.RecoveryReboot,
	Replace: sdk.RecoveryReplacement,
}

// demand is what a recovery action of the driver means.
type demand struct {
	code     string
	recovery sdk.Recovery
	remedy   string
}

// demands are the actions that a fault follows from. They are NVIDIA's: see
// https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/ and nvml.h.
var demands = map[driver.RecoveryAction]demand{
	driver.RecoveryReset:         {"recovery-reset", sdk.RecoveryReset, "reset the GPU (nvidia-smi --gpu-reset) when nothing uses it"},
	driver.RecoveryNodeReboot:    {"recovery-reboot", sdk.RecoveryReboot, "reboot the node"},
	driver.RecoveryDrainP2P:      {"recovery-drain-p2p", sdk.RecoveryReset, "end the programs that talk to it from other GPUs, then reset it"},
	driver.RecoveryDrainAndReset: {"recovery-drain-and-reset", sdk.RecoveryReset, "let its programs end, then reset it; it runs with less capacity until then"},
	driver.RecoveryIMEX:          {"recovery-imex", sdk.RecoverySelf, "recover the IMEX domain (nvidia-imex); the GPU is back when that is done"},
	driver.RecoveryBusReset:      {"recovery-bus-reset", sdk.RecoveryReset, "reset the GPU's PCIe bus when nothing uses it"},
	driver.RecoverySystemReboot:  {"recovery-reboot", sdk.RecoveryReboot, "reboot the node"},
}

// demandOf is the demand of an action other than none. Of one that this program
// does not know yet, no more is sure than that something must be done.
func demandOf(action driver.RecoveryAction) demand {
	if d, ok := demands[action]; ok {
		return d
	}
	return demand{"recovery-" + strconv.FormatUint(uint64(action), 10), sdk.RecoveryReset,
		"see what nvidia-smi -q says under GPU Recovery Action"}
}

// Judge says what an XID does to the health of the GPU (or of the MIG device that
// the event names). Action is the recovery action that the driver asks for, read
// after the event; nil if it has none or could not be read. The result is nil if
// the GPU stays sound; note is then what an operator may want to read in the log,
// empty for nothing.
//
//	action         ignore, application   a fault             overruled by hand
//	not read       sound                 the table's         the table's
//	none           sound                 no fault then       the table's
//	any other      the driver's          the driver's        the graver
//
// The driver knows more than a table: whether the error was contained, and what
// was hit. If it changes its mind later, the action alone is a fault: see
// [Table.Demand]. A code that somebody has overruled by hand is what they say.
func (t *Table) Judge(code uint64, action *driver.RecoveryAction) (fault *sdk.Health, note string) {
	row := t.Lookup(code)
	own := row.fault()
	asked := action != nil && *action != driver.RecoveryNone
	switch {
	case asked && t.off && own == nil:
		return nil, row.String() + ": health checks are off"
	case asked:
		d := demandOf(*action)
		theirs := sdk.Fault(row.code(), d.recovery, fmt.Sprintf("%s. The driver asks: %s.", row, d.remedy))
		if own != nil && row.byHand() {
			return sdk.Graver(own, theirs), ""
		}
		return theirs, ""
	case own == nil:
		return nil, row.sound()
	case action != nil && !row.byHand():
		return nil, row.String() + ": the driver says that the GPU needs nothing"
	}
	return own, ""
}

// Demand is the fault that follows from the driver's recovery action alone; nil
// if there is none, or if all checks are off.
func (t *Table) Demand(action *driver.RecoveryAction) *sdk.Health {
	if action == nil || *action == driver.RecoveryNone || t.off {
		return nil
	}
	d := demandOf(*action)
	return sdk.Fault(d.code, d.recovery, fmt.Sprintf("The driver asks: %s.", d.remedy))
}

// fault is what the row alone says; nil if the GPU stays sound.
func (r Row) fault() *sdk.Health {
	if !r.Verdict.Fault() {
		return nil
	}
	return sdk.Fault(r.code(), recoveries[r.Verdict], fmt.Sprintf("%s. To do: %s.", r, remedies[r.Verdict]))
}

// sound is the note on a row that is no fault.
func (r Row) sound() string {
	if r.Verdict == Application {
		return r.String() + ": the program must be started again, the GPU is sound"
	}
	return ""
}

// byHand says that settings or the environment made the row.
func (r Row) byHand() bool {
	return r.Source == settingsSource || r.Source == EnvEnable || r.Source == EnvDisable
}

func (r Row) code() string { return "xid-" + format(r.XID) }

// String is such as "XID 79: the GPU has fallen off the bus".
func (r Row) String() string {
	if r.Means == "" {
		return "XID " + format(r.XID) + ": not in the table"
	}
	return "XID " + format(r.XID) + ": " + r.Means
}

func format(code uint64) string { return strconv.FormatUint(code, 10) }
