package alveo

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

// firewalls are what the firewalls of a shell guard, by what their names have in common
// (NODE_AF_* in XRT's xocl_fdt.h and devices.h). Shells differ in which of them they
// have, so a level alone does not identify one; older shells give no names.
var firewalls = []struct{ name, guards string }{
	{"blp_ctrl_mgmt", "control of the base shell by the management function"},
	{"blp_ctrl_user", "control of the base shell by the user function"},
	{"ctrl_mgmt", "control of the shell by the management function"},
	{"ctrl_user", "control of kernels by the user function"},
	{"ctrl_debug", "debugging of kernels"},
	{"data_h2c", "data between host and card"},
	{"data_c2h", "access of kernels to the host's memory"},
	{"data_p2p", "data between cards"},
	{"data_m2m", "copies within the card's memory"},
}

// statuses are the bits of a firewall's status in words (AXI Firewall, PG293, and
// af_mi_status in XRT's subdev/firewall.c).
var statuses = map[int]string{
	1: "the kernel did not take a read address in time", 2: "the kernel paused too long while it was read from",
	3: "too much or too little was read", 4: "an answer to a read that was not requested",
	5: "an answer to a read changed before it was taken", 6: "a kernel answered a read with an error",
	7: "a read went to an address that nothing answers", 17: "the kernel did not take a write address in time",
	18: "the kernel did not take data in time", 19: "the kernel did not acknowledge a write in time",
	20: "an answer to a write that was not requested", 21: "an answer to a write changed before it was taken",
	22: "a kernel answered a write with an error", 23: "a write went to an address that nothing answers",
}

// guards describes what a firewall guards; empty if that is not known.
func guards(name string) string {
	for _, f := range firewalls {
		if strings.Contains(name, f.name) {
			return f.guards
		}
	}
	return ""
}

// why describes a firewall's status, for messages. SI-side firewalls have other bits, and sysfs
// does not report which side a firewall is on.
func why(status uint64) string {
	var all []string
	for bit := range 32 {
		if text := statuses[bit]; text != "" && status>>bit&1 == 1 {
			all = append(all, text)
		}
	}
	return strings.Join(all, ", ")
}

// text describes which firewall is tripped, and why.
func (f Firewall) text() string {
	text := "an AXI firewall is tripped"
	if f.Level >= 0 {
		text = fmt.Sprintf("the AXI firewall of level %d is tripped", f.Level)
	}
	var more []string
	if f.Detected != 0 && f.DetectedLevel == f.Level {
		if f.DetectedName != "" {
			more = append(more, f.DetectedName)
		}
		if g := guards(f.DetectedName); g != "" {
			more = append(more, "which guards "+g)
		}
		if f.DetectedTime > 0 && f.DetectedTime < 1<<40 {
			more = append(more, "since "+time.Unix(int64(f.DetectedTime), 0).UTC().Format(time.RFC3339))
		}
	}
	if len(more) > 0 {
		text += " (" + strings.Join(more, ", ") + ")"
	}
	if w := why(f.Status); w != "" {
		text += ": " + w
	}
	return fmt.Sprintf("%s; %s is 0x%x. Nothing gets through until the card is reset, which xocl does on its own if it can; "+
		"an xclbin that does it again is at fault", text, f.File, f.Status)
}

// Codes of faults.
const (
	FirewallTripped    = "firewall-tripped"
	CardShutdown       = "card-shutdown"
	CardOffline        = "card-offline"
	CardNotReady       = "card-not-ready"
	ManagementNotReady = "management-not-ready"
)

// faults returns what is wrong with the card.
func (c Card) faults() []driver.Fault {
	var all []driver.Fault
	add := func(code, cause string, recovery sdk.Recovery, format string, a ...any) {
		all = append(all, driver.Fault{Code: code, Cause: cause, Recovery: recovery, Text: fmt.Sprintf(format, a...)})
	}
	if f := c.firewall(); f.Tripped() {
		add(FirewallTripped, "firewall", sdk.RecoveryReset, "%s", f.text())
	}
	switch offline := c.Offline(); {
	case c.User != nil && c.User.Shutdown:
		add(CardShutdown, "shutdown", sdk.RecoverySelf, "the card was shut down for a reset, or by an administrator (%s is 1); "+
			"if it is not being worked on, write 0 there or reset the card", offline)
	case offline != "":
		add(CardOffline, "dev_offline", sdk.RecoverySelf, "the card is offline, as in reset (%s); it comes back on its own", offline)
	case c.User != nil && !c.User.Ready && c.Management == nil:
		add(CardNotReady, "ready", sdk.RecoverySelf, "xocl cannot reach the management function on the host of this virtual machine (%s is 0); "+
			"check that XRT's mpd and msd run", c.User.file("ready"))
	case c.User != nil && !c.User.Ready:
		add(CardNotReady, "ready", sdk.RecoverySelf, "xocl cannot reach xclmgmt (%s is 0); check that both are of one version of XRT, and the kernel's log",
			c.User.file("ready"))
	}
	if m := c.Management; m != nil && !m.Offline {
		switch {
		case m.Golden != "":
			add(ManagementNotReady, "golden", sdk.RecoveryReboot, "%s", m.golden())
		case !m.Ready:
			add(ManagementNotReady, "ready", sdk.RecoverySelf, "xclmgmt has not brought the card up (%s is 0); if it stays so, see xbmgmt examine and the "+
				"kernel's log: its shell or its firmware may be of another version", m.file("ready"))
		}
	}
	return all
}

// golden is what to do with a card that runs the golden image.
func (m Management) golden() string {
	return fmt.Sprintf("the card runs only the factory (golden) image that it came with (%s): flash a shell by xbmgmt program --base --device %s, and power-cycle the node",
		m.Golden, m.PCI.Address)
}

// firewall returns the state of the firewalls, by the management function if it is here; nil if
// neither function reports it.
func (c Card) firewall() *Firewall {
	if c.Management != nil && c.Management.Firewall != nil || c.User == nil {
		return c.Management.Firewall
	}
	return c.User.Firewall
}

// maxCount is more than the drivers' counters can have, which are of 32 bits.
const maxCount = math.MaxUint32

// counts returns what the card counts or latches.
func (c Card) counts() []driver.Count {
	var all []driver.Count
	if f := c.firewall(); f != nil {
		name := f.DetectedName
		if name == "" && f.Detected != 0 {
			name = fmt.Sprintf("level %d", f.DetectedLevel)
		}
		all = append(all,
			driver.Count{Name: "firewall_status", Label: "current", Value: float64(f.Status)},
			driver.Count{Name: "firewall_status", Label: "detected", Value: float64(f.Detected)},
			driver.Count{Name: "firewall_detected_timestamp_seconds", Label: name, Value: float64(f.DetectedTime)})
	}
	if c.Management == nil {
		return all
	}
	for _, b := range c.Management.Banks {
		count := func(name string, n *uint64) {
			if n != nil {
				all = append(all, driver.Count{Name: name, Label: b.Name, Grows: true, Value: float64(min(*n, maxCount))})
			}
		}
		count("memory_corrected_errors_total", b.Corrected)
		count("memory_uncorrected_errors_total", b.Uncorrected)
	}
	return all
}
