package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/accelmux/accelmux/test/nvml"
)

// vendor is what a vendor's backend reads: a stand-in for the hardware.
type vendor interface {
	// apply has the n-th device be as the entry says, which was another one before.
	apply(n int, before, now entry) error
}

// vendorOf is a vendor's backend of the node.
type vendorOf struct {
	program string // that is built
	// codes are what the backend calls the faults, by which the agent knows them.
	codes map[string]recovery
	// config is of its entry in the configuration, where DIR is the directory of the
	// stand-ins.
	config string
	make   func(dir, library string) (vendor, error)

	// double is the stand-in, and applied what its devices' entries were last; nil
	// where there is no node.
	double  vendor
	applied []entry
}

// layVendors makes the hardware of the vendors' backends whose programs are built, one
// tree of sysfs and devfs for all as on a machine, and takes the others out of the model.
func (w *world) layVendors(programs, library string) (err error) {
	w.m.vendors = slices.DeleteFunc(w.m.vendors, func(b *backend) bool {
		_, err := os.Stat(filepath.Join(programs, b.vendor.program))
		return err != nil || b.name == nvidiaBackend && library == ""
	})
	if len(w.m.vendors) == 0 {
		return nil
	}
	// Not below /dev, as paths there are those of the tree.
	if w.hardware, err = os.MkdirTemp("", "chaos-hardware"); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(w.hardware, aside), 0o755); err != nil {
		return err
	}
	for _, b := range w.m.vendors {
		b.vendor.applied = make([]entry, len(b.devices))
		if b.vendor.double, err = b.vendor.make(w.hardware, library); err != nil {
			return fmt.Errorf("make the hardware of backend %s: %w", b.name, err)
		}
	}
	// The device node of the mock backends' devices.
	dev := filepath.Join(w.hardware, "dev")
	return errors.Join(os.MkdirAll(dev, 0o755), os.WriteFile(filepath.Join(dev, "null"), nil, 0o600))
}

// build compiles the double of NVML for the NVIDIA backend, if that is built, and says
// and keeps which vendors' backends are not. remove removes what it made.
func (r *runner) build(ctx context.Context) (remove func(), err error) {
	remove = func() {}
	for _, b := range newModel().vendors {
		_, err := os.Stat(filepath.Join(r.programs, b.vendor.program))
		switch {
		case err != nil:
			r.unbuilt = append(r.unbuilt, b.vendor.program)
			_, _ = fmt.Fprintf(r.out, "left out: backend %s, since %s is not built\n", b.name, b.vendor.program)
		case b.name == nvidiaBackend:
			dir, err := os.MkdirTemp("", "chaos-nvml")
			if err != nil {
				return remove, err
			}
			remove = func() { _ = os.RemoveAll(dir) }
			if r.library, err = nvml.Build(ctx, dir); err != nil {
				return remove, err
			}
		}
	}
	return remove, nil
}

// named reports whether the backend tells of a fault of the kind itself: of a node that
// is missing the NVIDIA backend leaves that to the core.
func (b *backend) named(kind recovery) bool {
	return b.vendor == nil || slices.Contains(slices.Collect(maps.Values(b.vendor.codes)), kind)
}

// translated is the code of a fault in the words of the scenarios.
func (b *backend) translated(text string) string {
	if b.vendor != nil && b.vendor.codes[text] != "" {
		return code(b.vendor.codes[text])
	}
	return text
}

// applyEntries has the hardware be as the entries say.
func (b *backend) applyEntries() error {
	for i, d := range b.devices {
		before := b.vendor.applied[i]
		if d.entry == before {
			continue
		}
		if err := b.vendor.double.apply(i, before, d.entry); err != nil {
			return fmt.Errorf("change the hardware of %s: %w", d.id, err)
		}
		b.vendor.applied[i] = d.entry
	}
	return nil
}

// aside is where device nodes are that are missing, below the directory of the doubles.
const aside = "aside"

// setNode takes a device node away, such as dri/renderD128, or puts it back: what every
// backend tells as a fault that is over by itself.
func setNode(dir, node string, missing bool) error {
	there, away := filepath.Join(dir, "dev", node), filepath.Join(dir, aside, filepath.Base(node))
	if !missing {
		there, away = away, there
	}
	if err := os.Rename(there, away); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // else it is as it should be
	}
	return nil
}
