package amd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/amd/kfd"
	"github.com/accelmux/accelmux/backends/pci"
)

// vendorAMD, and the classes that GPUs have on the PCI bus: VGA, 3D, display and
// processing accelerators.
const vendorAMD = 0x1002

var classes = []uint16{0x0300, 0x0302, 0x0380, 0x1200}

// look is what one look found, by which settings.
type look struct {
	cfg       *config
	began     time.Time
	inventory gpu.Inventory
	// given is what containers get with each partition, by ID.
	given map[string]given
	// bus is what the PCI bus has: AMD's GPUs, and whatever is where GPUs are known of.
	bus map[pci.Address]slot
	err error // fs.ErrNotExist: the driver is not loaded
}

// slot is a device on the PCI bus.
type slot struct {
	driver string // empty if none has it
	err    error  // why it does not answer
}

// gather scans everything; known are the GPUs of earlier scans. It takes as long as the
// reads take.
func (b *Backend) gather(cfg *config, known []gpu.GPU) look {
	root := cfg.host.Sysfs
	found := look{cfg: cfg, began: time.Now(), given: map[string]given{}, bus: map[pci.Address]slot{}}
	found.inventory, found.err = b.seams.read(root, b.seams.names())
	found.reconcile(known)
	present, _ := pci.List(root, vendorAMD, classes...) // the others are asked by name, below
	for _, device := range present {
		found.bus[device.Address] = slot{driver: device.Driver}
	}
	for _, g := range known {
		at := g.PCI.Address
		if _, ok := found.bus[at]; ok {
			continue
		}
		device, err := pci.ReadDevice(root, at)
		if errors.Is(err, fs.ErrNotExist) {
			// It is unplugged only if all of it is gone.
			if _, gone := os.Stat(filepath.Join(root, "bus", "pci", "devices", at.String())); errors.Is(gone, fs.ErrNotExist) {
				continue
			}
		}
		found.bus[at] = slot{driver: device.Driver, err: err}
	}
	for _, g := range found.inventory.GPUs {
		for _, p := range g.Partitions {
			found.given[p.ID] = giving(cfg.edits, cfg.host.Devfs, p)
		}
	}
	return found
}

// reconcile leaves out a GPU whose ID differs from that of the known GPU at its address
// although KFD has the same unique IDs for both. The card's unique_id in sysfs is wrong
// then, and the GPU is the known one.
func (f *look) reconcile(known []gpu.GPU) {
	f.inventory.GPUs = slices.DeleteFunc(f.inventory.GPUs, func(g gpu.GPU) bool {
		at := g.PCI.Address
		i := slices.IndexFunc(known, func(k gpu.GPU) bool { return k.PCI.Address == at })
		if i < 0 || known[i].ID == g.ID || !sameSilicon(known[i], g) {
			return false
		}
		f.inventory.Problems = append(f.inventory.Problems, gpu.Problem{Device: at.String(), Lost: true, Err: fmt.Errorf(
			"by its unique_id it is %s, but KFD has the same IDs for it as for %s, so one of the two is wrong: see the kernel's log", g.ID, known[i].ID)})
		return true
	})
}

// sameSilicon reports whether the two GPUs have a unique ID of KFD in common.
func sameSilicon(a, b gpu.GPU) bool {
	return slices.ContainsFunc(a.Partitions, func(p gpu.Partition) bool {
		return p.UniqueID != 0 && slices.ContainsFunc(b.Partitions, func(q gpu.Partition) bool { return q.UniqueID == p.UniqueID })
	})
}

// unchanged reports whether KFD has counted no change since a look.
func (f look) unchanged(sysfs string) bool {
	generation, err := kfd.Generation(sysfs)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // as the look had it, if there was no KFD: then it is 0
	}
	return err == nil && generation == f.inventory.Generation
}

// identity is what two looks that saw the same machine have in common.
func (f look) identity() string {
	var text strings.Builder
	for _, g := range f.inventory.GPUs {
		fmt.Fprint(&text, g.ID, g.PCI.Address, g.Memory)
		for _, p := range g.Partitions {
			fmt.Fprint(&text, " ", p.Index, "/", p.Render)
		}
		text.WriteByte('\n')
	}
	for _, sentence := range f.sentences() {
		text.WriteString(sentence)
		text.WriteByte('\n')
	}
	if f.err != nil {
		text.WriteString(f.err.Error())
	}
	return text.String()
}

// reason is why the card at an address is left out.
func (f look) reason(at pci.Address) string {
	for _, p := range f.inventory.Problems {
		if p.Lost && p.Device == at.String() {
			return p.Err.Error()
		}
	}
	if f.err != nil {
		return f.err.Error()
	}
	return "it is not among the GPUs of the driver"
}

// partitionReason says why a partition of a present card is missing: what does not answer
// in KFD and DRM. These do not say which partition it belongs to.
func (f look) partitionReason() string {
	var all []string
	for _, p := range f.inventory.Problems {
		if _, err := pci.ParseAddress(p.Device); p.Lost && err != nil {
			all = append(all, fmt.Sprintf("%s: %v", p.Device, p.Err))
		}
	}
	switch len(all) {
	case 0:
		return "it has no KFD node"
	case 1:
		return all[0]
	}
	return fmt.Sprintf("%s (and %d more, see the problems)", all[0], len(all)-1)
}

// sentences are what an operator must know of it.
func (f look) sentences() []string {
	var all []string
	for _, p := range f.inventory.Problems {
		if p.Lost {
			all = append(all, fmt.Sprintf("%s is left out: %v", p.Device, p.Err))
		} else {
			all = append(all, fmt.Sprintf("%s: %v", p.Device, p.Err))
		}
	}
	switch {
	case errors.Is(f.err, fs.ErrNotExist):
		if first, n := f.idle(""); n > 0 {
			all = append(all, fmt.Sprintf("%d AMD GPUs are on the PCI bus (the first at %s), but the driver amdgpu is not loaded: modprobe amdgpu, or wait for who loads it", n, first))
		}
	case f.err != nil:
		all = append(all, "the GPUs cannot be read: "+f.err.Error())
	default:
		if first, n := f.idle(""); n > 0 {
			all = append(all, fmt.Sprintf("%d AMD GPUs are on the PCI bus without a driver (the first at %s): see the kernel's log for why amdgpu does not have them", n, first))
		}
	}
	return all
}

// idle are AMD's GPUs that a driver has ("" for none): the first, and how many.
func (f look) idle(driver string) (first pci.Address, n int) {
	for at, s := range f.bus {
		if s.driver != driver || s.err != nil {
			continue
		}
		if n++; n == 1 || at.Compare(first) < 0 {
			first = at
		}
	}
	return first, n
}

// driverAway reports whether the driver is not loaded.
func (f look) driverAway() bool { return errors.Is(f.err, fs.ErrNotExist) }
