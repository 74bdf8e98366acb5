package alveo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/tool"
)

// handed is the path by which the tool opens its file descriptor 3. See [Driver.Program].
const handed = "/proc/self/fd/3"

// Program has XRT's tool load an xclbin, since the ioctl for that differs between versions of
// XRT, and the tool matches its driver.
//
// The tool gets the checked file as an open descriptor, and opens it by the kernel's name for
// that. So the directory of bitstreams need not be in the tool's root, and changes of the file's
// name do not matter. Program checks before and after whether the file was written to. The
// tool's root must have /proc for it.
//
// When ctx ends the tool is killed. If the kernel is programming the card, Program returns when
// that has ended.
func (d *Driver) Program(ctx context.Context, c driver.Card, r driver.Region, f *bitstream.File) error {
	wrong := func(err error) error { return fmt.Errorf("program card %s with %s: %w", c.ID, f.Path, err) }
	untouched := func(err error) error { return driver.UntouchedError{Err: wrong(err)} }
	if err := d.Fits(c, r, f); err != nil {
		return driver.UntouchedError{Err: err}
	}
	card, err := d.usable(c)
	if err != nil {
		return untouched(err)
	}
	xrt := d.tool()
	path, err := xrt.Find()
	if err != nil {
		return untouched(fmt.Errorf("it needs XRT's tool: %w", err))
	}
	if _, err := os.Stat(filepath.Join("/", d.settings.Root, filepath.Dir(handed))); err != nil {
		return untouched(fmt.Errorf("the tool's root %s has no /proc of this process, by which it is given the file: mount the node's /proc there: %w", d.settings.Root, err))
	}
	file, err := f.OS()
	if err != nil {
		return driver.UntouchedError{Err: err}
	}
	if err := f.Unchanged(); err != nil {
		return untouched(err)
	}
	xrt.Name = filepath.Base(path)
	_, err = xrt.Run(ctx, path, tool.Call{
		Args: []string{"program", "--device", card.User.PCI.Address.String(), "--user", handed}, Files: []*os.File{file},
	})
	if err != nil {
		return wrong(fmt.Errorf("%w; %s", err, d.became(c)))
	}
	if err := f.Unchanged(); err != nil {
		return wrong(fmt.Errorf("what was loaded may be neither the old nor the new file: %w; %s", err, d.became(c)))
	}
	return d.verify(ctx, c, f)
}

// usable returns a card that can be programmed now.
func (d *Driver) usable(c driver.Card) (Card, error) {
	card, err := d.again(c)
	switch {
	case err != nil:
		return Card{}, err
	case card.User == nil:
		return Card{}, errNoCard
	case card.Offline() != "":
		return Card{}, fmt.Errorf("it is offline, as in reset (%s)", card.Offline())
	case !card.User.Ready:
		return Card{}, fmt.Errorf("it is not ready (%s is 0)", card.User.file("ready"))
	}
	if w := card.firewall(); w.Tripped() {
		return Card{}, errors.New(w.text())
	}
	return card, nil
}

// verify waits until the card reports a file's xclbin.
func (d *Driver) verify(ctx context.Context, c driver.Card, f *bitstream.File) error {
	ctx, cancel := context.WithTimeout(ctx, d.verified)
	defer cancel()
	if d.wait(ctx, func() bool { return d.has(c, f.UUID) }) != nil {
		return fmt.Errorf("program card %s with %s: the tool reported success, but %s, and the file is %s", c.ID, f.Path, d.became(c), f.UUID)
	}
	return nil
}

// has reports whether a card has an xclbin.
func (d *Driver) has(c driver.Card, id bitstream.UUID) bool {
	card, err := d.again(c)
	return err == nil && card.User != nil && card.Offline() == "" && slices.Contains(card.User.Xclbins, id)
}

// became returns what a card has loaded now, in words.
func (d *Driver) became(c driver.Card) string {
	card, err := d.again(c)
	switch {
	case err != nil:
		return fmt.Sprintf("it is not known what the card has loaded now: %v", err)
	case card.User == nil || card.Offline() != "" || !card.User.Reported:
		return "the card does not report what it has loaded now"
	case len(card.User.Xclbins) == 0:
		return "the card has nothing loaded now"
	}
	return fmt.Sprintf("the card has %s loaded now", card.User.Xclbins[0])
}
