package intel

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/ioctl"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Reset resets a port, and clears the errors that the port and its card's engine have latched.
// It fails if an error is back at once, or cannot be cleared. The loaded function stays; its
// state is lost. The kernel does not check whether the port is in use. When ctx ends it does as
// [Driver.Program].
func (d *Driver) Reset(_ context.Context, c driver.Card, r driver.Region) (string, error) {
	done, err := d.reset(c, r)
	if err != nil {
		return "", fmt.Errorf("reset port %d of the card %s (%s): %w", r.Number, c.ID, c.Model, err)
	}
	return done, nil
}

func (d *Driver) reset(c driver.Card, r driver.Region) (string, error) {
	t, err := d.target(c, r)
	if err != nil {
		return "", err
	}
	node, err := d.opened(t.port.Node)
	if err != nil {
		return "", err
	}
	err = ioctl.ResetPort(node, d.requests())
	if err := errors.Join(err, node.Close()); err != nil {
		return "", err
	}
	done := []string{"reset of " + devNode(t.port.Node)}
	cleared, failed := d.clear(&t)
	if len(cleared) > 0 {
		done = append(done, "cleared "+strings.Join(cleared, ", "))
	}
	after, err := d.target(c, r)
	if err != nil {
		return "", fmt.Errorf("after the %s %w", strings.Join(done, ", "), err)
	}
	if after.port.State == Busy {
		return "", d.stuck(after, "the port stays in reset")
	}
	faults := portFaults(after.card, after.port)
	if after.engine != nil {
		faults = append(faults, engineFaults(after.engine, after.manager.PCI.Address.String())...)
	}
	for _, f := range faults {
		if f.Recovery != sdk.RecoverySelf {
			failed = append(failed, errors.New(f.Text))
		}
	}
	if len(failed) > 0 {
		return "", fmt.Errorf("after the %s: %w", strings.Join(done, ", "), errors.Join(failed...))
	}
	return strings.Join(done, ", "), nil
}

// clear clears the errors of a port and of its card's engine that can be cleared.
func (d *Driver) clear(t *target) (cleared []string, failed []error) {
	registers := t.port.Registers
	if t.engine != nil {
		registers = append(registers[:len(registers):len(registers)], t.engine.Registers...)
	}
	for _, r := range registers {
		file := d.clearer(r)
		if file == "" || !r.Raised() {
			continue
		}
		switch err := d.clearRegister(r, file); {
		case errors.Is(err, unix.EBUSY) && r.Name == "errors" && t.port.PowerState == 6:
			failed = append(failed, fmt.Errorf("clear %s: the port is in the power state AP6, in which it keeps its errors: see to its cooling, and try again: %w", file, err))
		case err != nil:
			failed = append(failed, fmt.Errorf("clear %s: %w", file, err))
		default:
			cleared = append(cleared, fmt.Sprintf("%s (%s)", r.Name, r))
		}
	}
	return cleared, failed
}

// clearer returns the file by which a register is cleared; empty if there is none. Linux's
// driver has the register's own (errors_store in dfl-afu-error.c, fme_errors_store and
// pcie0_errors_store in dfl-fme-error.c); the older one a file clear beside those of the
// port and of the engine (clear_store in afu-error.c and fme-error.c).
func (d *Driver) clearer(r Register) string {
	file := filepath.Join(d.host.Sysfs, r.File)
	switch r.Name {
	case "pcie0_errors", "pcie1_errors":
		return file
	case "errors", "fme_errors":
		if d.family == OPAE {
			return filepath.Join(filepath.Dir(file), "clear")
		}
		return file
	}
	return ""
}

// clearRegister clears a register by its value. If the value changes meanwhile, the drivers
// refuse (EINVAL or, the older one, EBUSY), and it tries again with the new one.
func (d *Driver) clearRegister(r Register, file string) error {
	reader := d.reader()
	for try := 1; ; try++ {
		text, err := reader.text(d.host.Sysfs, r.File)
		if err != nil {
			return err
		}
		r.High, r.Low, err = parseRegister(text)
		if err != nil || !r.Raised() {
			return err // zero already: the reset has cleared it
		}
		err = d.write(file, r.String())
		if err == nil || try == clears || !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EBUSY) {
			return err
		}
	}
}

// clears is how often it tries to clear a register whose value changes.
const clears = 3
