package intel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/ioctl"
)

// target is the present state of a port: nodes have other names after a reload of the driver.
type target struct {
	card Card
	port Port
	// engine is nil if there is none, and manager the card that it is in.
	engine  *Engine
	manager Card
	// dir and engineDir are the directories of the port and of the engine.
	dir, engineDir string
}

// target finds a port again.
func (d *Driver) target(c driver.Card, r driver.Region) (target, error) {
	found, err := d.inventory()
	if err != nil {
		return target{}, err
	}
	for _, card := range found.Cards {
		if card.ID != c.ID {
			continue
		}
		for _, p := range card.Ports {
			if p.ID != r.ID {
				continue
			}
			t := target{card: card, port: p, manager: found.managerOf(card), dir: filepath.Join(d.host.Sysfs, card.Dir, p.Node.Name)}
			if t.engine = t.manager.Engine; t.engine != nil {
				t.engineDir = filepath.Join(d.host.Sysfs, t.manager.Dir, t.engine.Node.Name)
			}
			return t, nil
		}
	}
	why := "the card or its driver has gone"
	for _, p := range found.Problems {
		if p.Lost && c.PCI != nil && p.Device == c.PCI.Address.String() {
			why = p.Err.Error()
		}
	}
	return target{}, fmt.Errorf("it is not there: %s", why)
}

// afu returns what the port reports now.
func (d *Driver) afu(t target) (State, string, error) {
	if _, err := os.Lstat(t.dir); errors.Is(err, fs.ErrNotExist) {
		return "", "", errors.New("the card or its driver has gone")
	}
	r := d.reader()
	return r.afu(t.dir)
}

// opened opens a device node, if it has the number that the kernel reports.
func (d *Driver) opened(n Node) (ioctl.Node, error) {
	path := filepath.Join(d.host.Devfs, n.Name)
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err == nil && stat.Mode&unix.S_IFMT == unix.S_IFCHR &&
		(unix.Major(stat.Rdev) != n.Major || unix.Minor(stat.Rdev) != n.Minor) {
		return nil, fmt.Errorf("the device node %s is %d:%d, and the kernel's is %d:%d: it is an old one, or /dev is not the host's",
			path, unix.Major(stat.Rdev), unix.Minor(stat.Rdev), n.Major, n.Minor)
	}
	return d.open(path)
}

// described names what is loaded in a port, for messages.
func described(state State, afu string) string {
	switch state {
	case Loaded:
		return "the accelerator function " + afu
	case Unloaded:
		return "no accelerator function"
	case Busy:
		return "nothing, for it is in reset"
	}
	return "a function that it does not report"
}

// stuck returns why a port in reset cannot be used. Linux's driver counts the holders of a port
// in reset, and a programming that fails does not release it (fpga_region_program_fpga,
// port_enable_set in dfl-afu-main.c): not even a later success ends the reset.
func (d *Driver) stuck(t target, why string) error {
	if d.family == DFL {
		why += fmt.Sprintf(": Linux leaves a port in reset when its programming fails: if it stays so, unbind the driver from %s and bind it again when nothing uses the card, or reboot the node",
			t.manager.PCI.Address)
	}
	return errors.New(why)
}
