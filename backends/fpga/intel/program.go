package intel

import (
	"cmp"
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
	// settles is how long to wait for a port in reset before it is programmed, and for its
	// report of the new function. The kernel needs 1 ms for a reset, and ends a port's reset
	// before it returns.
	settles = 3 * time.Second
	// polls is the interval of reads meanwhile.
	polls = 20 * time.Millisecond
)

// Program puts a .gbs into a port, by the engine of the card or, for a virtual
// function, of its physical one. It ends when the port reports the function, or, for a port
// that reports none, as on OFS cards, when the kernel returns. The kernel does not check
// whether the port is in use: the caller does.
//
// Once the kernel is in it, it returns when the kernel is done, even if ctx has ended.
func (d *Driver) Program(ctx context.Context, c driver.Card, r driver.Region, f *bitstream.File) error {
	if err := d.Fits(c, r, f); err != nil {
		return driver.UntouchedError{Err: err}
	}
	wrong := func(err error) error {
		return fmt.Errorf("program port %d of the card %s (%s) with %s: %w", r.Number, c.ID, c.Model, f.Path, err)
	}
	if err := cmp.Or(ctx.Err(), f.Unchanged()); err != nil {
		return wrong(asItWas(err))
	}
	payload, unmap, err := f.Map()
	if err != nil {
		return wrong(asItWas(err))
	}
	defer func() { _ = unmap() }()
	if err := d.put(ctx, c, r, f, payload); err != nil {
		return wrong(err)
	}
	return nil
}

// asItWas marks an error after which the port is unchanged.
func asItWas(err error) error {
	return driver.UntouchedError{Err: fmt.Errorf("%w; the port is as it was", err)}
}

// put is Program with the content of the file.
func (d *Driver) put(ctx context.Context, c driver.Card, r driver.Region, f *bitstream.File, payload []byte) error {
	var t target
	var err error
	// When a port's node is closed for the last time, the kernel resets the port, which is short.
	poll(ctx, func() bool {
		t, err = d.target(c, r)
		return err != nil || t.port.State != Busy
	})
	if err != nil {
		return driver.UntouchedError{Err: err}
	}
	// The caller's reading may be old: the card may have other firmware, or have lost its
	// engine.
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
	_ = node.Close() // the result counts
	if err != nil {
		return d.failed(t, err)
	}
	if err := f.Unchanged(); err != nil {
		return fmt.Errorf("%w: it changed while the port was programmed with it, so what the port has is unknown: program it again", err)
	}
	return d.awaitFunction(t, accelerator(f))
}

// awaitFunction waits until the port reports an accelerator function, which is soon; the ID
// before that is meaningless.
func (d *Driver) awaitFunction(t target, want string) error {
	var state State
	var afu string
	var err error
	has := func() bool {
		return err == nil && (state == Loaded && afu == want || state == Unreported && t.port.State == Unreported)
	}
	poll(context.Background(), func() bool {
		state, afu, err = d.afu(t)
		return has() || err == nil && state == Loaded && afu != t.port.AFU
	})
	switch {
	case has():
		return nil
	case err != nil:
		return fmt.Errorf("the kernel reported success, and what the port has is unknown: %w", err)
	case state == Busy:
		return d.stuck(t, "the kernel reported success, and the port is still in reset")
	}
	return fmt.Errorf("the kernel reported success, and the port has %s instead of %s: the file's metadata do not belong to its bitstream, the card did not take it, or another program was faster",
		described(state, afu), want)
}

// poll returns when so returns true, or ctx or the time limit ends.
func poll(ctx context.Context, so func() bool) {
	limit, tick := time.NewTimer(settles), time.NewTicker(polls)
	defer limit.Stop()
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		case <-limit.C:
			return
		}
	}
}

// untouched are the errors with which the kernel refuses before it puts the port into reset
// (fme_pr in dfl-fme-pr.c, fpga_region_program_fpga in fpga-region.c).
var untouched = []error{
	unix.EINVAL, unix.EFAULT, unix.ENOMEM, unix.EBUSY, unix.EPERM, unix.EACCES, unix.ENODEV, unix.ENXIO, unix.ENOTTY, unix.ENOSYS,
	unix.ENOENT, unix.EOVERFLOW,
}

// failed returns an error with the state of a port that could not be programmed.
func (d *Driver) failed(t target, why error) error {
	if status := d.status(t); status != "" && errors.Is(why, unix.EIO) {
		why = fmt.Errorf("%w (the engine's fpga_manager reports: %s)", why, status)
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
		return fmt.Errorf("%w; the port has %s now", why, described(state, afu))
	case refused:
		return driver.UntouchedError{Err: fmt.Errorf("%w; the port is as it was, with %s", why, described(state, afu))}
	}
	return fmt.Errorf("%w; the port still reports %s, but may be overwritten in part: program it again before it is used", why, described(state, afu))
}

// status returns the card's error for a bitstream, which Linux's driver has in a file
// (status_show in fpga-mgr.c): "reconfig CRC error".
func (d *Driver) status(t target) string {
	r := d.reader()
	parents, _ := dirs(t.engineDir, "dfl-fme-mgr.")
	for _, parent := range parents {
		managers, _ := dirs(filepath.Join(parent, "fpga_manager"), "fpga")
		for _, m := range managers {
			if text, err := r.text(m, "status"); err == nil {
				return driver.Printable(strings.Join(strings.FieldsFunc(text, func(c rune) bool { return c == '\n' }), ", "))
			}
		}
	}
	return ""
}
