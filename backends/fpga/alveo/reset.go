package alveo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/tool"
)

// The values for the file shutdown of a user function (XOCL_ONLINE and XOCL_SHUTDOWN_WITH_RESET
// in XRT's xocl_drv.h).
const (
	online  = "0\n"
	offline = "1\n"
)

// Reset resets a whole card, which then has nothing loaded, and opens its firewalls. XRT's
// driver ends all processes on this node that have it open.
//
// XRT's tool does it where it is installed. Otherwise the file shutdown is used: 1 resets the
// card and leaves it shut down, 0 starts it again, as xbmgmt does (device_shutdown and
// device_online in XRT's device_linux.cpp). A card that another process has shut down is not
// changed: its shell may be being flashed.
//
// It returns when the card is back, or when ctx ends; then the kernel's reset goes on. The next
// Reset starts a card that is left shut down.
func (d *Driver) Reset(ctx context.Context, c driver.Card, _ driver.Region) (done string, err error) {
	wrong := func(err error) (string, error) { return "", fmt.Errorf("reset card %s: %w", c.ID, err) }
	card, err := d.again(c)
	if err != nil {
		return wrong(err)
	}
	u := card.User
	if u == nil {
		return wrong(errNoCard)
	}
	xrt := d.tool()
	path, err := xrt.Find()
	switch {
	case u.Shutdown && !d.left(c.ID):
		return wrong(fmt.Errorf("another process has shut it down (%s is 1), as xbmgmt does to flash a card: write 0 there if it is not being worked on", u.file("shutdown")))
	case u.Shutdown || errors.Is(err, os.ErrNotExist) && d.settings.Tool == "":
		done = fmt.Sprintf("hot reset of %s by xocl (%s)", u.PCI.Address, u.file("shutdown"))
		err = d.hot(ctx, c, u)
	case err == nil:
		xrt.Name = filepath.Base(path)
		done, err = xrt.Run(ctx, path, tool.Call{Args: []string{"reset", "--device", u.PCI.Address.String(), "--force"}})
	}
	if err != nil {
		return wrong(err)
	}
	if err := d.wait(ctx, func() bool { return d.missing(c) == "" }); err != nil {
		return wrong(fmt.Errorf("%s, but the card has not come back (%s): %w", done, d.missing(c), err))
	}
	return done, nil
}

// left reports whether a reset of this process has left a card shut down.
func (d *Driver) left(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.begun[id]
	return ok
}

// leave records that a reset of this process shuts a card down, or forgets it.
func (d *Driver) leave(id string, begun bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if begun {
		d.begun[id] = false
	} else {
		delete(d.begun, id)
	}
}

// notice forgets that a reset has left a card shut down once another process has brought
// it back.
func (d *Driver) notice(id string, shutdown bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch seen, begun := d.begun[id]; {
	case begun && shutdown:
		d.begun[id] = true
	case begun && seen:
		delete(d.begun, id)
	}
}

// hot resets a card by its user function. The driver marks it shut down once it has requested
// the reset; the reset has ended when the management function is back or, in a virtual machine
// without one, the user function.
func (d *Driver) hot(ctx context.Context, c driver.Card, u *User) error {
	if !u.Shutdown {
		d.leave(c.ID, true)
		if err := d.shutdown(u, offline); err != nil {
			d.leave(c.ID, false)
			return err
		}
	}
	over := func() bool {
		card, err := d.again(c)
		switch {
		case err != nil || card.User == nil || !card.User.Shutdown:
			return false
		case card.Management != nil:
			return !card.Management.Offline
		}
		return card.User.Ready && card.User.Shell.VBNV != ""
	}
	if err := d.wait(ctx, over); err != nil {
		return fmt.Errorf("the hot reset has not come to its end, and the card stays shut down until the next reset, or until 0 is written to %s: %w",
			u.file("shutdown"), err)
	}
	if err := d.shutdown(u, online); err != nil {
		return err
	}
	d.leave(c.ID, false)
	return nil
}

func (d *Driver) shutdown(u *User, text string) error {
	return d.write(filepath.Join(d.host.Sysfs, u.file("shutdown")), text)
}

// missing returns why a card cannot be used yet; empty if it can.
func (d *Driver) missing(c driver.Card) string {
	card, err := d.again(c)
	switch {
	case err != nil:
		return err.Error()
	case card.User == nil:
		return "it has no user function"
	case card.Offline() != "":
		return card.Offline() + " shows that it is offline"
	case !card.User.Ready:
		return card.User.file("ready") + " is 0"
	}
	if w := card.firewall(); w.Tripped() {
		return fmt.Sprintf("%s is 0x%x", w.File, w.Status)
	}
	return ""
}
