package xid

import (
	"fmt"
	"strconv"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

// remedies are the actions of the operator that clear a fault.
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

// demand is the fault that a recovery action of the driver means.
type demand struct {
	code     string
	recovery sdk.Recovery
	remedy   string
}

// demands are the recovery actions that are a fault. They are NVIDIA's: see
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

// demandOf returns the demand of an action other than none. For an unknown action of a
// later driver it assumes a reset.
func demandOf(action driver.RecoveryAction) demand {
	if d, ok := demands[action]; ok {
		return d
	}
	return demand{"recovery-" + strconv.FormatUint(uint64(action), 10), sdk.RecoveryReset,
		"see GPU Recovery Action in nvidia-smi -q"}
}

// Judge returns the fault that an XID is for the GPU (or for the MIG device that the
// event names). action is the recovery action that the driver requires, read after
// the event; nil if the driver has none or it could not be read. fault is nil if
// the GPU stays healthy; then note is a message for the log, or empty if there is
// nothing to log.
//
//	action         ignore, application   a fault             overruled by settings
//	not read       healthy               the table's         the table's
//	none           healthy               no fault            the table's
//	any other      the driver's          the driver's        the graver
//
// The driver has more information than the table: whether the error was contained, and
// what it affected. If its action changes later, the action alone is a fault: see
// [Table.Demand]. A row of settings or of the environment counts despite action none.
func (t *Table) Judge(code uint64, action *driver.RecoveryAction) (fault *sdk.Health, note string) {
	row := t.Lookup(code)
	own := row.fault()
	required := action != nil && *action != driver.RecoveryNone
	switch {
	case required && t.off && own == nil:
		return nil, row.String() + ": health checks are off"
	case required:
		d := demandOf(*action)
		drivers := sdk.Fault(row.code(), d.recovery, fmt.Sprintf("%s. The driver requires: %s.", row, d.remedy))
		if own != nil && row.byHand() {
			return sdk.Graver(own, drivers), ""
		}
		return drivers, ""
	case own == nil:
		return nil, row.note()
	case action != nil && !row.byHand():
		return nil, row.String() + ": the driver needs no recovery action"
	}
	return own, ""
}

// Demand returns the fault for the driver's recovery action alone; nil if the action
// is none, or if all checks are off.
func (t *Table) Demand(action *driver.RecoveryAction) *sdk.Health {
	if action == nil || *action == driver.RecoveryNone || t.off {
		return nil
	}
	d := demandOf(*action)
	return sdk.Fault(d.code, d.recovery, fmt.Sprintf("The driver requires: %s.", d.remedy))
}

// fault returns the row's fault; nil if the GPU stays healthy.
func (r Row) fault() *sdk.Health {
	if !r.Verdict.Fault() {
		return nil
	}
	return sdk.Fault(r.code(), recoveries[r.Verdict], fmt.Sprintf("%s. To do: %s.", r, remedies[r.Verdict]))
}

// note returns the message for the log for a row that is no fault.
func (r Row) note() string {
	if r.Verdict == Application {
		return r.String() + ": the program must be started again, the GPU is healthy"
	}
	return ""
}

// byHand reports whether settings or the environment made the row.
func (r Row) byHand() bool {
	return r.Source == settingsSource || r.Source == EnvEnable || r.Source == EnvDisable
}

func (r Row) code() string { return "xid-" + format(r.XID) }

// String returns for example "XID 79: the GPU has fallen off the bus".
func (r Row) String() string {
	if r.Means == "" {
		return "XID " + format(r.XID) + ": not in the table"
	}
	return "XID " + format(r.XID) + ": " + r.Means
}

func format(code uint64) string { return strconv.FormatUint(code, 10) }
