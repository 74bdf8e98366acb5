package manager

import (
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/test/fpgatree"
)

func codes(faults []driver.Fault) []string {
	var all []string
	for _, f := range faults {
		all = append(all, f.Code)
	}
	return all
}

// The meaning of each state, with the files of AMD's kernels and without.
func TestStates(t *testing.T) {
	type want struct {
		state driver.State
		fault string // by files and without
	}
	for state, c := range map[string]want{
		"unknown": {driver.Unreported, "|"}, "operating": {driver.Unreported, "|"}, "power up": {driver.Unloaded, "|"}, "reset": {driver.Unloaded, "|"},
		"power off": {driver.Unloaded, "power-off|power-off"}, "firmware request": {driver.Busy, "|"}, "parse header": {driver.Busy, "|"},
		"write init": {driver.Busy, "|"}, "write": {driver.Busy, "|"}, "write complete": {driver.Busy, "|"},
		"firmware request error": {driver.Unreported, "|firmware-request-error"}, "parse header error": {driver.Unreported, "|parse-header-error"},
		"write init error": {driver.Unreported, "write-init-error|write-init-error"}, "write error": {driver.Unreported, "write-error|write-error"},
		"write complete error": {driver.Unreported, "write-complete-error|write-complete-error"}, "some new error": {driver.Unreported, "some-new-error|some-new-error"},
	} {
		var faults []string
		for _, firmware := range []bool{true, false} {
			m := fpgatree.NewZynqMP()
			m.Plain[0].State, m.Plain[0].Firmware = state, firmware
			got := find(t, fpgatest.Tree(t, m))
			if len(got.Cards) != 1 || len(got.Problems) > 0 || got.Cards[0].Regions[0].State != c.state || got.Cards[0].Attributes["managerState"].GetStringValue() != state ||
				got.Cards[0].Attributes["programmed"].GetBoolValue() != (state == operating) {
				t.Errorf("%s: %+v; problems %q", state, got.Cards, fpgatest.Problems(got.Problems))
				continue
			}
			faults = append(faults, strings.Join(codes(got.Cards[0].Faults), ","))
			for _, f := range got.Cards[0].Faults {
				if f.Recovery != sdk.RecoverySelf {
					t.Errorf("%s: %+v", state, f)
				}
			}
		}
		if strings.Join(faults, "|") != c.fault {
			t.Errorf("%s: faults %q, want %q", state, faults, c.fault)
		}
	}
}

// Each error in a manager's status is a fault, except those that are no failure.
func TestStatus(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewZynqMP())
	for _, c := range []struct {
		state, status string
		want          []string
		problem       string
	}{
		{"operating", "", nil, ""},
		{"operating", "reconfig operation error\nreconfig CRC error\nreconfig incompatible image\n", []string{"reconfig-operation-error", "reconfig-crc-error", "reconfig-incompatible-image"}, ""},
		{"write error", "reconfig IP protocol error\nreconfig fifo overflow error\n", []string{"write-error", "reconfig-ip-protocol-error", "reconfig-fifo-overflow-error"}, ""},
		{"write", "reconfig CRC error\n", nil, ""},
		{"unknown", "initialization has not finished\nall I/Os are placed in High-Z state\nstart-up sequence has not finished\n", nil, ""},
		{"operating", "start-up sequence has not finished\n", []string{"start-up-sequence-has-not-finished"}, ""},
		{"operating", "device internal signal error\nreconfig security error\n", []string{"device-internal-signal-error", "reconfig-security-error"}, ""},
		{"firmware request error", "firmware request error\n", nil, ""},
		{"operating", "an error that is new\n\x00\x00", []string{"an-error-that-is-new"}, ""},
		{"operating", strings.Repeat("error\n", 33), nil, "33 lines"},
		{"operating", "\x01\x02", nil, "is no text"},
		{"operating", strings.Repeat("long ", 200), []string{strings.TrimRight(strings.Repeat("long-", 12)+"lon", "-")}, ""},
		{"waiting", "", nil, `state is "waiting", which no known kernel reports`},
	} {
		for file, text := range map[string]string{"state": c.state + "\n", "status": c.status} {
			fpgatest.OK(t, tree.SetManager(0, file, text))
		}
		got := find(t, tree)
		if problems := strings.Join(fpgatest.Problems(got.Problems), "\n"); (problems != "") != (c.problem != "") || !strings.Contains(problems, c.problem) {
			t.Errorf("%s, %q: problems %s", c.state, c.status, problems)
		}
		if len(got.Cards) != 1 || !slices.Equal(codes(got.Cards[0].Faults), c.want) {
			t.Errorf("%s, %q: %+v", c.state, c.status, got.Cards)
			continue
		}
		for _, f := range got.Cards[0].Faults {
			if (f.Recovery == sdk.RecoveryReboot) != (f.Code == "device-internal-signal-error") {
				t.Errorf("%+v", f)
			}
		}
	}
	m := fpgatree.NewZynq()
	m.Plain[0].NoStatus = true
	if got := find(t, fpgatest.Tree(t, m)); len(got.Cards) != 1 || len(got.Problems) > 0 {
		t.Errorf("without the file: %+v", got)
	}
}
