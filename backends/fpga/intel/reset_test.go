package intel

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/test/fpgadevice"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// raise sets registers of a function, or fails the test.
func (r rig) raise(t *testing.T, at string, registers map[string]uint64) {
	t.Helper()
	for register, value := range registers {
		fpgatest.OK(t, r.tree.SetRegister(address(t, at), register, value))
	}
}

// Verifies that a reset resets the port, clears what can be cleared under each driver and for a
// virtual function its engine's errors, and reports that.
func TestReset(t *testing.T) {
	const pf, vf = "0000:05:00.0", "0000:05:00.1"
	dfl := map[string]uint64{"fme/fme_errors": 0x20, "fme/first_error": 0x20, "fme/pcie0_errors": 3, "fme/pcie1_errors": 1 << 63}
	for name, c := range map[string]struct {
		machine fpgatree.Machine
		family  Family
		id      string
		raised  map[string]map[string]uint64
		node    string
		want    string
	}{
		"nothing latched": {fpgatree.NewD5005(), DFL, "fpga-0000-05-00-0-port-0", nil, "dfl-port.0", "reset of /dev/dfl-port.0"},
		"all": {
			fpgatree.NewD5005(), DFL, "fpga-0000-05-00-0-port-0",
			map[string]map[string]uint64{pf: dfl, pf + " ": {"port0/errors": 0x12, "port0/first_error": 2, "port0/first_malformed_req": 9}}, "dfl-port.0",
			"reset of /dev/dfl-port.0, cleared errors (0x12), fme_errors (0x20), pcie0_errors (0x3), pcie1_errors (0x8000000000000000)",
		},
		"older driver": {
			fpgatree.NewArria10(), OPAE, "fpga-0000-05-00-0-port-0",
			map[string]map[string]uint64{pf: {"fme/fme-errors/errors": 7, "fme/fme-errors/first_error": 1, "fme/pcie0_errors": 1, "port0/errors": 0x12}}, "intel-fpga-port.0",
			"reset of /dev/intel-fpga-port.0, cleared errors (0x12), fme_errors (0x7), pcie0_errors (0x1)",
		},
		"virtual function": {
			fpgatree.NewVF(), DFL, "fpga-0000-05-00-1-port-0", map[string]map[string]uint64{pf: {"fme/fme_errors": 1}, vf: {"port0/errors": 4}}, "dfl-port.0",
			"reset of /dev/dfl-port.0, cleared errors (0x4), fme_errors (0x1)",
		},
		"what passes on its own": {
			fpgatree.NewD5005(), DFL, "fpga-0000-05-00-0-port-0", map[string]map[string]uint64{pf: {"fme/nonfatal_errors": 1, "port0/errors": 1}}, "dfl-port.0",
			"reset of /dev/dfl-port.0, cleared errors (0x1)",
		},
	} {
		rig := newRig(t, c.machine, c.family)
		for at, registers := range c.raised {
			rig.raise(t, strings.TrimSpace(at), registers)
		}
		card, region := port(t, rig.Driver, c.id)
		if faults := len(card.Faults) + len(region.Faults); (faults == 0) != (c.raised == nil) {
			t.Errorf("%s: %d faults before", name, faults)
		}
		done, err := rig.Reset(t.Context(), card, region)
		if err != nil || done != c.want {
			t.Errorf("%s: %q, %v; want %q", name, done, err, c.want)
		}
		if calls := rig.device.Calls(); len(calls) != 1 || calls[0].Request != fpgadevice.Reset || calls[0].Node != c.node {
			t.Errorf("%s: calls %+v", name, calls)
		}
		card, region = port(t, rig.Driver, c.id)
		for _, f := range append(card.Faults, region.Faults...) {
			if f.Cause != "nonfatal_errors" {
				t.Errorf("%s: still %v", name, f)
			}
		}
	}
}

// Verifies that a reset that does not help is an error that names the remaining errors.
func TestResetFails(t *testing.T) {
	const at = "0000:05:00.0"
	for name, c := range map[string]struct {
		raised map[string]uint64
		power  string
		answer fpgadevice.Answer
		write  func(r rig) func(path, text string) error
		want   string
	}{
		"catastrophic": {map[string]uint64{"fme/catfatal_errors": 0x800}, "", fpgadevice.Answer{}, nil, "after the reset of /dev/dfl-port.0: catfatal_errors of dfl-fme.0 (0000:05:00.0) is 0x800: "},
		"comes again": {map[string]uint64{"port0/errors": 0x12}, "", fpgadevice.Answer{}, func(r rig) func(string, string) error {
			return func(path, text string) error {
				return errors.Join(r.device.Write(path, text), os.WriteFile(path, []byte("0x13\n"), 0o600))
			}
		}, "after the reset of /dev/dfl-port.0, cleared errors (0x12): errors of dfl-port.0 (0000:05:00.0 port 0) is 0x13"},
		"not allowed": {map[string]uint64{"fme/pcie0_errors": 1}, "", fpgadevice.Answer{}, func(rig) func(string, string) error {
			return func(path, _ string) error { return &os.PathError{Op: "open", Path: path, Err: unix.EROFS} }
		}, "dfl-fme.0/errors/pcie0_errors: read-only file system"},
		"shut down": {map[string]uint64{"port0/errors": 1 << 50}, "0x6\n", fpgadevice.Answer{}, func(rig) func(string, string) error {
			return func(path, _ string) error { return &os.PathError{Op: "write", Path: path, Err: unix.EBUSY} }
		}, "the port is in the power state AP6, in which it keeps its errors: see to its cooling"},
		"still shut down": {nil, "0x6\n", fpgadevice.Answer{}, nil, "power_state of dfl-port.0 (0000:05:00.0 port 0) is AP6"},
		"does not end":    {nil, "", fpgadevice.Answer{Errno: unix.ETIMEDOUT}, nil, "reset port 0 of the card fpga-0000-05-00-0 (Intel FPGA PAC D5005): DFL_FPGA_PORT_RESET of the node"},
		"unplugged":       {nil, "", fpgadevice.Answer{Gone: true}, nil, "reset port 0 of the card"},
		"always new ones": {map[string]uint64{"port0/errors": 1}, "", fpgadevice.Answer{}, changing(1000), "errors/errors: invalid argument"},
	} {
		rig := newRig(t, fpgatree.NewD5005(), DFL)
		rig.raise(t, at, c.raised)
		dir, err := rig.tree.Find(address(t, at), "port0")
		if c.power != "" {
			err = errors.Join(err, rig.tree.SetFile(dir+"/power_state", c.power))
		}
		fpgatest.OK(t, err)
		if c.write != nil {
			rig.write = c.write(rig)
		}
		rig.device.NextReset(c.answer)
		card, region := port(t, rig.Driver, "fpga-0000-05-00-0-port-0")
		done, err := rig.Reset(t.Context(), card, region)
		if (err == nil) != (c.want == "") || err != nil && (done != "" || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %q, %v; want %q", name, done, err, c.want)
		}
	}
}

// changing changes a register's value just before it is cleared, a number of times.
func changing(times int) func(rig) func(path, text string) error {
	return func(r rig) func(path, text string) error {
		return func(path, text string) error {
			if times--; times >= 0 {
				if err := os.WriteFile(path, []byte(text+"1\n"), 0o600); err != nil {
					return err
				}
			}
			return r.device.Write(path, text)
		}
	}
}
