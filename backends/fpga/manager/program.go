package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// zynq is the manager that accepts only a byte-swapped .bin (zynq-fpga.c): it searches for the
// word of synchronization in that order. Its successors' firmware accepts both.
const zynq = "Xilinx Zynq FPGA Manager"

// bitHeader is what the files .bit of AMD's tools begin with, before any name.
var bitHeader = []byte{0x00, 0x09, 0x0f, 0xf0, 0x0f, 0xf0, 0x0f, 0xf0, 0x0f, 0xf0, 0x00, 0x00, 0x01}

// Fits accepts raw files, for a region that can be programmed from here. A raw file does not
// name its FPGA: the kernel and the FPGA check that.
func (d *Driver) Fits(c driver.Card, r driver.Region, f *bitstream.File) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("bitstream %s is not for region %s: %w", f.Path, r.ID, fmt.Errorf(format, args...))
	}
	if err := d.programmable(c, r); err != nil {
		return err
	}
	if f.Kind != bitstream.Raw {
		return wrong("it is a .%s, and the manager %q is given raw files, whose bytes go to the FPGA as they are", f.Kind, c.Model)
	}
	if c.Model == zynq && d.settings.Flags&partial == 0 {
		head := make([]byte, len(bitHeader))
		if _, err := io.ReadFull(f.Reader(), head); err == nil && string(head) == string(bitHeader) {
			return wrong("it is a .bit, and the kernel's driver of a Zynq takes a byte-swapped .bin: make one with bootgen -process_bitstream bin")
		}
	}
	return nil
}

// programmable returns why a region cannot be programmed from here.
func (d *Driver) programmable(c driver.Card, r driver.Region) error {
	if r.Programmable {
		return nil
	}
	file := filepath.Join(d.sysfs, c.Dir, "firmware")
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("region %s cannot be programmed from here: the kernel has no file %s, which AMD's kernels for SoCs have; "+
			"program it when the node starts, or by an overlay of the device tree, and ask for it without a bitstream", r.ID, file)
	}
	return fmt.Errorf("region %s cannot be programmed alone: its manager has several regions, and what is in a full bitstream is for all of them; "+
		"for partial bitstreams have 1 in the flags of the settings", r.ID)
}

// Program puts a raw file into the FPGA. The kernel reads it from its directory of
// firmware, by name: it is copied there, and removed when the kernel is done. There is
// one such file for each card at most, whatever ends this process.
//
// Programming by files does not use the kernel's regions: it does not close their bridges, and
// devices in them keep their drivers. The caller ensures that the FPGA is not in use, as the
// core does for containers.
//
// The write that programs it cannot be interrupted: ctx counts until then.
func (d *Driver) Program(ctx context.Context, c driver.Card, r driver.Region, f *bitstream.File) error {
	if err := d.Fits(c, r, f); err != nil {
		return driver.UntouchedError{Err: err}
	}
	untouched := func(err error) error {
		return driver.UntouchedError{Err: fmt.Errorf("program %s: %w; it has what it had", c.ID, err)}
	}
	dir := filepath.Join(d.sysfs, c.Dir)
	release, err := claim(filepath.Join(dir, "firmware"))
	if err != nil {
		return untouched(err)
	}
	defer release()
	name := "accelmux-" + c.ID + ".bin"
	if err := d.bring(ctx, name, f); err != nil {
		return untouched(err)
	}
	defer func() { _ = os.Remove(filepath.Join(d.settings.Firmware, name)) }()
	if err := d.flags(dir); err != nil {
		return untouched(err)
	}
	if err := ctx.Err(); err != nil {
		return untouched(fmt.Errorf("the call ended before the kernel was called: %w", err))
	}
	err = d.settings.Write(filepath.Join(dir, "firmware"), name)
	return d.outcome(c, dir, f, err)
}

// claim prevents other processes of this project from programming the card concurrently.
func claim(file string) (release func(), err error) {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is gone: its driver was unloaded or loaded again", file)
	}
	if err != nil {
		return nil, sysfs.Writable(unwritable(err))
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("another process programs it (%s is locked): %w", file, err)
	}
	return func() { _ = f.Close() }, nil
}

// unwritable returns why a file of sysfs could not be written.
func unwritable(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: programming needs root", err)
	}
	return err
}

// bring copies a bitstream to the kernel's directory of firmware, under a name.
func (d *Driver) bring(ctx context.Context, name string, f *bitstream.File) (err error) {
	file := filepath.Join(d.settings.Firmware, name)
	// So that no link is followed, and the name never has an incomplete file.
	staged := filepath.Join(d.settings.Firmware, "."+name)
	if err := os.Remove(staged); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d.unplaced(err)
	}
	to, err := os.OpenFile(staged, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return d.unplaced(err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(staged)
		}
	}()
	_, err = io.Copy(to, &until{ctx: ctx, from: f.Reader()})
	if err := errors.Join(err, to.Close()); err != nil {
		return d.unplaced(err)
	}
	if err := f.Unchanged(); err != nil {
		return err
	}
	if err := os.Rename(staged, file); err != nil {
		return d.unplaced(err)
	}
	return nil
}

// unplaced returns why the kernel cannot be given a file.
func (d *Driver) unplaced(err error) error {
	what := fmt.Errorf("the bitstream cannot be put into the kernel's directory of firmware, %s: %w", d.settings.Firmware, err)
	switch {
	case errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: mount it for writing, or set another directory for the kernel (firmware_class.path), and name that directory in the settings", what)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: make it, or name in the settings where this process has the host's", what)
	}
	return what
}

// until reads until ctx ends.
type until struct {
	ctx  context.Context
	from io.Reader
}

func (u *until) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.from.Read(b)
}

// flags writes the flags of the settings. The kernel's file is in hexadecimal. It is written
// each time, since other processes may have changed it.
func (d *Driver) flags(dir string) error {
	file := filepath.Join(dir, "flags")
	err := d.settings.Write(file, fmt.Sprintf("%x\n", d.settings.Flags))
	if errors.Is(err, fs.ErrNotExist) {
		if d.settings.Flags == 0 {
			return nil
		}
		return fmt.Errorf("the kernel has no file %s, and the settings have the flags %#x", file, d.settings.Flags)
	}
	if err != nil {
		return fmt.Errorf("the flags %#x cannot be set: %w", d.settings.Flags, unwritable(err))
	}
	return nil
}

// outcome returns the result for a card that the kernel was to program; failed is the kernel's
// error.
func (d *Driver) outcome(c driver.Card, dir string, f *bitstream.File, failed error) error {
	r := reader{file: sysfs.Read}
	state, err := r.line(dir, "state")
	if err != nil {
		err = fmt.Errorf("bitstream %s was given to %s, and its state is not known: %w", f.Path, c.ID, err)
		return errors.Join(err, failed)
	}
	status, err := r.text(page, dir, "status")
	if err != nil {
		status = ""
	}
	faults, _ := judgeStatus(status, state, true)
	reported := fmt.Sprintf("state %q", state)
	if len(faults) > 0 {
		reported += fmt.Sprintf(", status %s", sysfs.Quote(strings.ReplaceAll(strings.TrimSpace(status), "\n", "; ")))
	}
	switch {
	case failed == nil && state == operating && len(faults) == 0:
		return nil
	case failed == nil:
		return fmt.Errorf("bitstream %s was given to %s, and it does not report success (%s): what is in it is not known; %s", f.Path, c.ID, reported, again)
	case state == "firmware request error":
		return driver.UntouchedError{Err: fmt.Errorf("bitstream %s was not given to %s, which has what it had: the kernel did not find it (%s): %w; %s",
			f.Path, c.ID, reported, failed, d.elsewhere())}
	case untouched[state] || errors.Is(failed, fs.ErrPermission) || errors.Is(failed, unix.EROFS):
		return driver.UntouchedError{Err: fmt.Errorf("bitstream %s was refused before %s was touched, which has what it had (%s): %w", f.Path, c.ID, reported, unwritable(failed))}
	default:
		return fmt.Errorf("bitstream %s was given to %s, and programming failed (%s): %w; what is in it is not known: %s", f.Path, c.ID, reported, failed, again)
	}
}

// elsewhere returns the kernel's directory of firmware, if it reports that.
func (d *Driver) elsewhere() string {
	where := "/lib/firmware"
	text, err := (&reader{file: sysfs.Read}).text(page, d.sysfs, "module", "firmware_class", "parameters", "path")
	if err == nil && text != "" {
		where = fmt.Sprintf("%s, then /lib/firmware", sysfs.Quote(text))
	}
	return fmt.Sprintf("the kernel searches %s of the host, and this process wrote the file to %s: see the setting firmware", where, d.settings.Firmware)
}
