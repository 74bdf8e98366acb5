package intel

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/ioctl"
)

const (
	// settles is how long a port may be in reset before it is programmed, and how long it
	// may take to say what it has then. The kernel needs 1 ms for a reset, and takes a
	// port out of it before it answers.
	settles = 3 * time.Second
	// looks is how often it is looked at meanwhile.
	looks = 20 * time.Millisecond
)

// Program puts a .gbs into a port, by the engine of the card or, for a virtual
// function, of its physical one. It ends when the port says that it has the function; a
// port that never tells, as on OFS cards, has it when the kernel says so. The kernel
// does not ask who uses the port: the caller makes sure that nobody does.
//
// When ctx ends while it waits for other work on the board, it has not begun; once the
// kernel is in it, it returns when the kernel is done, whatever ctx says.
func (d *Driver) Program(ctx context.Context, c driver.Card, r driver.Region, f *bitstream.File) error {
	if err := d.Fits(c, r, f); err != nil {
		return driver.UntouchedError{Err: err}
	}
	wrong := func(err error) error {
		return fmt.Errorf("program port %d of the card %s (%s) with %s: %w", r.Number, c.ID, c.Model, f.Path, err)
	}
	if err := f.Unchanged(); err != nil {
		return wrong(asItWas(err))
	}
	payload, unmap, err := f.Map()
	if err != nil {
		return wrong(asItWas(err))
	}
	defer func() { _ = unmap() }()
	_, err = d.lanes.run(ctx, c.Board, func() (string, error) { return "", d.put(ctx, c, r, f, payload) })
	if errors.Is(err, errNotBegun) || errors.Is(err, errOccupied) {
		err = asItWas(err)
	}
	if err != nil {
		return wrong(err)
	}
	return nil
}

// asItWas says that a port was not touched.
func asItWas(err error) error {
	return driver.UntouchedError{Err: fmt.Errorf("%w; the port is as it was", err)}
}

// put is Program in its lane.
func (d *Driver) put(ctx context.Context, c driver.Card, r driver.Region, f *bitstream.File, payload []byte) error {
	var t target
	var err error
	// Who closes a port's node last has the kernel reset it, which is over soon.
	poll(ctx, func() bool {
		t, err = d.target(c, r)
		return err != nil || t.port.State != Busy
	})
	if err != nil {
		return driver.UntouchedError{Err: err}
	}
	// What the caller read may be old: the card has other firmware, or has lost its engine.
	now := region(t.card, t.port, t.engine)
	if err := fits(card(t.card, t.engine), now, f); err != nil {
		return driver.UntouchedError{Err: fmt.Errorf("it does not fit any more: %w", err)}
	}
	if t.port.State == Busy {
		return driver.UntouchedError{Err: d.stuck(t, "the port is in reset already, so another programming is on its way, or one has failed")}
	}
	node, err := d.opened(t.engine.Node)
	if err != nil {
		return asItWas(err)
	}
	err = ioctl.ProgramPort(node, d.requests(), uint32(t.port.Number), payload)
	_ = node.Close() // the answer counts
	if err != nil {
		return d.failed(t, err)
	}
	if err := f.Unchanged(); err != nil {
		return fmt.Errorf("%w: it changed while the port was programmed with it, so what the port has is unknown: program it again", err)
	}
	return d.settled(t, accelerator(f))
}

// settled waits until the port says that it has an accelerator function. That is soon,
// and nobody can tell what it has before.
func (d *Driver) settled(t target, want string) error {
	var state State
	var afu string
	var err error
	has := func() bool {
		return err == nil && (state == Loaded && afu == want || state == Untold && t.port.State == Untold)
	}
	poll(context.Background(), func() bool {
		state, afu, err = d.afu(t)
		return has() || err == nil && state == Loaded && afu != t.port.AFU
	})
	switch {
	case has():
		return nil
	case err != nil:
		return fmt.Errorf("the kernel says that it is done, and what the port has is unknown: %w", err)
	case state == Busy:
		return d.stuck(t, "the kernel says that it is done, and the port is still in reset")
	}
	return fmt.Errorf("the kernel says that it is done, and the port has %s instead of %s: the file's metadata do not belong to its bitstream, the card did not take it, or another program was faster",
		says(state, afu), want)
}

// poll looks until something is so, or ctx ends, or time is up.
func poll(ctx context.Context, so func() bool) {
	limit, look := time.NewTimer(settles), time.NewTicker(looks)
	defer limit.Stop()
	defer look.Stop()
	for !so() {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		case <-limit.C:
			return
		}
	}
}

// untouched are the answers with which the kernel refuses before it puts the port into
// reset (fme_pr in dfl-fme-pr.c, fpga_region_program_fpga in fpga-region.c).
var untouched = []error{
	unix.EINVAL, unix.EFAULT, unix.ENOMEM, unix.EBUSY, unix.EPERM, unix.EACCES, unix.ENODEV, unix.ENXIO, unix.ENOTTY, unix.ENOSYS,
	unix.ENOENT, unix.EOVERFLOW,
}

// failed says what became of a port that could not be programmed.
func (d *Driver) failed(t target, why error) error {
	if said := d.status(t); said != "" && errors.Is(why, unix.EIO) {
		why = fmt.Errorf("%w (the engine's fpga_manager says: %s)", why, said)
	}
	state, afu, err := d.afu(t)
	refused := false
	for _, errno := range untouched {
		refused = refused || errors.Is(why, errno)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w; what the port has is unknown: %w", why, err)
	case state == Busy:
		return d.stuck(t, why.Error()+"; the port is left in reset")
	case state != t.port.State || afu != t.port.AFU:
		return fmt.Errorf("%w; the port has %s now", why, says(state, afu))
	case refused:
		return driver.UntouchedError{Err: fmt.Errorf("%w; the port is as it was, with %s", why, says(state, afu))}
	}
	return fmt.Errorf("%w; the port still says %s, but may be overwritten in part: program it again before it is used", why, says(state, afu))
}

// status is what the card found wrong with a bitstream, which Linux's driver has in a
// file (status_show in fpga-mgr.c): "reconfig CRC error".
func (d *Driver) status(t target) string {
	r := d.reader()
	parents, _ := dirs(t.engineDir, "dfl-fme-mgr.")
	for _, parent := range parents {
		managers, _ := dirs(filepath.Join(parent, "fpga_manager"), "fpga")
		for _, m := range managers {
			if text, err := r.text(m, "status"); err == nil {
				return printable(strings.Join(strings.FieldsFunc(text, func(c rune) bool { return c == '\n' }), ", "))
			}
		}
	}
	return ""
}

// stuck is why a port in reset is not to be used. Linux's driver counts who holds a
// port in reset, and a programming that fails does not let go of it
// (fpga_region_program_fpga, port_enable_set in dfl-afu-main.c): not even one that
// succeeds has it work again.
func (d *Driver) stuck(t target, why string) error {
	if d.family == DFL {
		why += fmt.Sprintf(": Linux leaves a port in reset when its programming fails: if it stays so, unbind the driver from %s and bind it again when nothing uses the card, or reboot the node",
			t.manager.PCI.Address)
	}
	return errors.New(why)
}
