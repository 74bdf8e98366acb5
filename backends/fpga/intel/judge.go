package intel

import (
	"fmt"
	"strings"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

// rule is the meaning of an error register that is not 0.
type rule struct {
	register string
	recovery sdk.Recovery
	// what happened, and what to do.
	what string
}

// The registers of the engine, and what clears them
// (Documentation/ABI/testing/sysfs-platform-dfl-fme; dfl-fme-error.c in Linux's
// drivers/fpga; fme-error.c of the older driver):
//
//	register         cleared by                       the card works again after
//	catfatal_errors  nothing, it is read-only         power cycle: what needs it has stopped
//	fme_errors       the value written back           reset
//	pcie0_errors     the value written back           reset
//	pcie1_errors     the value written back           reset
//	nonfatal_errors  nothing, it is read-only         it is no longer raised: it sums up heat,
//	                                                  power and other registers
//	first_error, next_error: evidence of fme_errors, cleared with it
//
// and those of a port (sysfs-platform-dfl-port, dfl-afu-error.c):
//
//	errors           the value written back, while the driver holds the port in
//	                 reset; not in the power state AP6
//	first_error      evidence, cleared with errors
//	first_malformed_req  evidence, stays
var (
	engineRules = []rule{
		{
			"catfatal_errors", sdk.RecoveryReboot,
			"the FPGA had a catastrophic or fatal error, which no driver can clear: power-cycle the node, and replace the card if it comes again",
		},
		{
			"fme_errors", sdk.RecoveryReset,
			"the management engine of the FPGA had errors: reset the card's ports when nothing uses them, and power-cycle the node if it comes again",
		},
		{
			"pcie0_errors", sdk.RecoveryReset,
			"the FPGA saw errors on its first PCIe link: reset the card's ports when nothing uses them; if it comes again, see to the slot and the card",
		},
		{
			"pcie1_errors", sdk.RecoveryReset,
			"the FPGA saw errors on its second PCIe link: reset the card's ports when nothing uses them; if it comes again, see to the slot and the card",
		},
		{
			"nonfatal_errors", sdk.RecoverySelf,
			"the FPGA reports heat, power beyond its limit or an error of a part of it: see to its cooling and to other faults of the card; if it stays, power-cycle the node",
		},
	}
	portRules = []rule{{
		"errors", sdk.RecoveryReset,
		"the accelerator function did what it must not, or did not answer: reset the port when nothing uses it; if it comes again, see to the function and to what drives it",
	}}
)

// evidence has the registers that are reported with a register.
var evidence = map[string][]string{
	"fme_errors": {"first_error", "next_error"},
	"errors":     {"first_error", "first_malformed_req"},
}

// String returns the value as the kernel writes it.
func (r Register) String() string {
	if r.High != 0 {
		return fmt.Sprintf("0x%x%016x", r.High, r.Low)
	}
	return fmt.Sprintf("0x%x", r.Low)
}

// engineFaults returns the faults of the engine at a PCI address, which virtual functions have, too.
func engineFaults(e *Engine, at string) []driver.Fault {
	return judge(e.Registers, engineRules, e.Node.Name+" ("+at+")")
}

// judge returns the faults that registers report; of is the owner's name for messages.
func judge(registers []Register, rules []rule, of string) []driver.Fault {
	var faults []driver.Fault
	for _, rule := range rules {
		r, ok := named(registers, rule.register)
		if !ok || !r.Raised() {
			continue
		}
		code, text := strings.ReplaceAll(rule.register, "_", "-"), ""
		if rule.register == "errors" {
			code = "port-errors"
		}
		for _, name := range evidence[rule.register] {
			if e, ok := named(registers, name); ok && e.Raised() {
				text += fmt.Sprintf(", %s %s", name, e)
			}
		}
		faults = append(faults, driver.Fault{
			Code: code, Recovery: rule.recovery, Cause: rule.register,
			Text: fmt.Sprintf("%s of %s is %s%s: %s", rule.register, of, r, text, rule.what),
		})
	}
	return faults
}

func named(registers []Register, name string) (Register, bool) {
	for _, r := range registers {
		if r.Name == name {
			return r, true
		}
	}
	return Register{}, false
}

// powerRules are the power states (sysfs-platform-dfl-port; temp1_max_policy in
// sysfs-platform-dfl-fme describes how much each throttles).
var powerRules = map[uint8]struct {
	code, what string
	recovery   sdk.Recovery
}{
	1: {"throttled", "the FPGA is too hot or draws too much power, and its function is slowed down by half: see to its cooling", sdk.RecoverySelf},
	2: {"throttled", "the FPGA is too hot or draws too much power, and its function is slowed down by 90 %: see to its cooling", sdk.RecoverySelf},
	6: {
		"shut-down", "the FPGA was too hot, and its function is stopped: see to its cooling, then reset the port; if it stays so, program it again or power-cycle the node",
		sdk.RecoveryReset,
	},
}

// portFaults returns the faults of a port alone.
func portFaults(c Card, p Port) []driver.Fault {
	of := fmt.Sprintf("%s (%s port %d)", p.Node.Name, c.PCI.Address, p.Number)
	faults := judge(p.Registers, portRules, of)
	if rule, ok := powerRules[p.PowerState]; ok {
		faults = append(faults, driver.Fault{
			Code: rule.code, Recovery: rule.recovery, Cause: fmt.Sprintf("power_state_ap%d", p.PowerState),
			Text: fmt.Sprintf("power_state of %s is AP%d: %s", of, p.PowerState, rule.what),
		})
	}
	return faults
}

// raised counts 1 for each register that is not 0.
func raised(registers []Register, rules []rule) []driver.Count {
	var counts []driver.Count
	for _, rule := range rules {
		if r, ok := named(registers, rule.register); ok {
			value := 0.0
			if r.Raised() {
				value = 1
			}
			counts = append(counts, driver.Count{Name: "error_register_raised", Label: rule.register, Value: value})
		}
	}
	return counts
}

func portCounts(p Port) []driver.Count {
	return append(raised(p.Registers, portRules), driver.Count{Name: "power_state", Value: float64(p.PowerState)})
}
