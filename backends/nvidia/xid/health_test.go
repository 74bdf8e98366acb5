package xid

import (
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

// The table and the driver's action, combined; a nil action could not be read.
func TestJudge(t *testing.T) {
	none, reset, reboot := driver.RecoveryNone, driver.RecoveryReset, driver.RecoveryNodeReboot
	drain, imex, later := driver.RecoveryDrainAndReset, driver.RecoveryIMEX, driver.RecoveryAction(42)
	const healthy = sdk.Recovery(0)
	for name, c := range map[string]struct {
		settings string
		env      Environment
		code     uint64
		action   *driver.RecoveryAction
		want     sdk.Recovery
		text     string // in the message or note
	}{
		"table alone":                       {code: 79, want: sdk.RecoveryReboot, text: "reboot the node"},
		"reset":                             {code: 48, want: sdk.RecoveryReset, text: "nvidia-smi --gpu-reset"},
		"hardware":                          {code: 54, want: sdk.RecoveryReplacement, text: "power"},
		"unknown code":                      {code: 999, want: sdk.RecoveryReset, text: "XID 999: not in the table"},
		"application":                       {code: 13, want: healthy, text: "started again"},
		"ignored":                           {code: 63, want: healthy},
		"driver: nothing needed":            {code: 48, action: &none, want: healthy, text: "needs no recovery action"},
		"driver: nothing, application":      {code: 31, action: &none, want: healthy, text: "started again"},
		"driver requires more":              {code: 48, action: &reboot, want: sdk.RecoveryReboot, text: "The driver requires: reboot the node."},
		"driver requires less":              {code: 79, action: &reset, want: sdk.RecoveryReset, text: "The driver requires: reset"},
		"driver requires after application": {code: 31, action: &reset, want: sdk.RecoveryReset, text: "page fault"},
		"driver drains":                     {code: 63, action: &drain, want: sdk.RecoveryReset, text: "less capacity"},
		"IMEX mends itself":                 {code: 149, action: &imex, want: sdk.RecoverySelf, text: "IMEX"},
		"an action of a later driver":       {code: 13, action: &later, want: sdk.RecoveryReset, text: "nvidia-smi -q"},
		"154 without an action":             {code: 154, want: sdk.RecoveryReset},
		"154 and all is well":               {code: 154, action: &none, want: healthy},
		"by hand, driver: nothing":          {settings: `{"rows":{"31":"reset"}}`, code: 31, action: &none, want: sdk.RecoveryReset},
		"by hand, driver lesser":            {settings: `{"rows":{"31":"replace"}}`, code: 31, action: &reset, want: sdk.RecoveryReplacement},
		"by hand, driver graver":            {settings: `{"rows":{"31":"reset"}}`, code: 31, action: &reboot, want: sdk.RecoveryReboot},
		"ignored by hand, driver silent":    {settings: `{"ignore":[79]}`, code: 79, want: healthy},
		"ignored by hand, driver requires":  {settings: `{"ignore":[79]}`, code: 79, action: &reboot, want: sdk.RecoveryReboot},
		"off":                               {env: Environment{Disable: "all"}, code: 79, action: &reboot, want: healthy, text: "checks are off"},
		"off but for one":                   {env: Environment{Disable: "all", Enable: "79"}, code: 79, action: &none, want: sdk.RecoveryReboot},
	} {
		t.Run(name, func(t *testing.T) {
			table, err := newTable(c.settings, c.env)
			if err != nil {
				t.Fatal(err)
			}
			fault, note := table.Judge(c.code, c.action)
			if got := fault.GetRecovery(); got != c.want {
				t.Fatalf("got %v (%v, %q), want %v", got, fault, note, c.want)
			}
			text := note
			if fault != nil {
				text = fault.GetMessage()
				if note != "" || fault.GetCode() != "xid-"+format(c.code) {
					t.Errorf("code %q, note %q", fault.GetCode(), note)
				}
			}
			if !strings.Contains(text, c.text) || (c.text == "" && fault == nil && c.code == 63 && text != "") {
				t.Errorf("got %q, want %q in it", text, c.text)
			}
		})
	}
}

// A recovery action of the driver is a fault even without an XID.
func TestDemand(t *testing.T) {
	table, err := newTable("", Environment{})
	if err != nil {
		t.Fatal(err)
	}
	off, err := newTable("", Environment{Disable: "all"})
	if err != nil {
		t.Fatal(err)
	}
	if table.Demand(nil) != nil {
		t.Error("no action is a fault")
	}
	for action, want := range map[driver.RecoveryAction]struct {
		code     string
		recovery sdk.Recovery
	}{
		driver.RecoveryNone:          {"", 0},
		driver.RecoveryReset:         {"recovery-reset", sdk.RecoveryReset},
		driver.RecoveryNodeReboot:    {"recovery-reboot", sdk.RecoveryReboot},
		driver.RecoveryDrainP2P:      {"recovery-drain-p2p", sdk.RecoveryReset},
		driver.RecoveryDrainAndReset: {"recovery-drain-and-reset", sdk.RecoveryReset},
		driver.RecoveryIMEX:          {"recovery-imex", sdk.RecoverySelf},
		driver.RecoveryBusReset:      {"recovery-bus-reset", sdk.RecoveryReset},
		driver.RecoverySystemReboot:  {"recovery-reboot", sdk.RecoveryReboot},
		77:                           {"recovery-77", sdk.RecoveryReset},
	} {
		got := table.Demand(&action)
		if got.GetCode() != want.code || got.GetRecovery() != want.recovery {
			t.Errorf("action %d: got %v, want %v", action, got, want)
		}
		if off.Demand(&action) != nil {
			t.Errorf("action %d is a fault though checks are off", action)
		}
	}
}
