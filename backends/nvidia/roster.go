package nvidia

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/edits"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
)

// roster remembers the GPUs of the node, so that one that dies keeps its
// identity: its UUID, what it was, and the MIG devices that it had.
type roster struct {
	gpus map[string]*record // by UUID
	// strangers are GPUs that never said who they are, in words.
	strangers []string
}

// record is one GPU.
type record struct {
	// gpu is what NVML said last, with what was known before where it says
	// nothing now.
	gpu driver.GPU
	// at is what sysfs says; zero if the device is not there.
	at pci.Device
	// faults are what events told, by what they concern; see judge.go.
	faults map[scope]fault
	// xids counts what was heard.
	xids xidCounts
	// given is what containers get with the GPU and with its MIG devices, by UUID.
	given map[string]given
	// fresh says that the driver was loaded anew, and nothing was heard since.
	fresh bool
	// wasLost: the GPU was lost and has passed no self-test since. answering is the time
	// since when it has answered without an error; zero if it does not. answered: that is
	// as long as a self-test takes.
	wasLost, answered bool
	answering         time.Time
	// missing is the time since when NVML no longer lists the GPU; zero if it does. node
	// says what is wrong with its device node then; "" if nothing is.
	missing time.Time
	node    string
}

// given is what a container gets, or why nothing.
type given struct {
	edits *sdk.Edits
	err   error
}

// scope is a GPU as a whole, or one of its MIG devices.
type scope struct {
	gpuInstance, computeInstance uint32
}

var whole = scope{driver.Whole, driver.Whole}

// covers reports whether something that concerns s concerns the MIG device.
func (s scope) covers(i driver.Instance) bool {
	return (s.gpuInstance == driver.Whole || s.gpuInstance == i.GPUInstance) &&
		(s.computeInstance == driver.Whole || s.computeInstance == i.ComputeInstance)
}

func (s scope) compare(o scope) int {
	return cmp.Or(cmp.Compare(s.gpuInstance, o.gpuInstance), cmp.Compare(s.computeInstance, o.computeInstance))
}

func newRoster() *roster { return &roster{gpus: map[string]*record{}} }

// take takes a snapshot in. identify gives the UUID of a GPU that does not say it
// any more, by its PCI bus ID.
func (r *roster) take(s driver.Snapshot, now time.Time, sysfs string, identify func(busID string) string) {
	r.strangers = nil
	seen := map[string]bool{}
	for _, g := range placed(s.GPUs, sysfs) {
		if g.UUID == "" {
			g.UUID = cmp.Or(r.at(g.PCIBusID), identify(g.PCIBusID))
		}
		if g.UUID == "" {
			r.strangers = append(r.strangers, stranger(g))
			continue
		}
		seen[g.UUID] = true
		known := r.gpus[g.UUID]
		if known == nil {
			known = &record{faults: map[scope]fault{}, xids: xidCounts{}}
			r.gpus[g.UUID] = known
		}
		known.update(g, sysfs)
	}
	for uuid, known := range r.gpus {
		if !seen[uuid] && known.missing.IsZero() {
			known.missing = now
		}
	}
}

// update takes in what NVML says now. A GPU that could not be read keeps what it
// was.
func (k *record) update(g driver.GPU, sysfs string) {
	k.missing, k.node = time.Time{}, ""
	before := k.gpu
	if g.Err != nil && before.UUID != "" {
		before.Err, before.Index = g.Err, g.Index
		before.PCIBusID = cmp.Or(g.PCIBusID, before.PCIBusID)
		g = before
	}
	k.gpu = g
	k.at = pci.Device{NUMANode: -1}
	if address, err := pci.ParseAddress(g.PCIBusID); err == nil {
		if device, err := pci.ReadDevice(sysfs, address); err == nil {
			k.at = device
		}
	}
}

// give takes over what containers get now. A GPU that could not be read keeps what
// it gave before.
func (k *record) give(set *edits.Set) {
	if k.gpu.Err != nil || !k.missing.IsZero() {
		return
	}
	k.given = map[string]given{}
	put := func(uuid string) {
		e, err := set.Of(uuid)
		k.given[uuid] = given{e, err}
	}
	put(k.gpu.UUID)
	for _, i := range k.gpu.Instances {
		put(i.UUID)
	}
}

// placed are the GPUs with the bus IDs of those that NVML knows by nothing but their
// index: such a GPU is dead, and was so when NVML was opened. Those that the driver
// has on the bus and that no other GPU is at must be these, if there are as many. NVML
// counts in the order of the bus.
func placed(gpus []driver.GPU, sysfs string) []driver.GPU {
	taken := map[string]bool{}
	nameless := 0
	for _, g := range gpus {
		taken[g.PCIBusID] = true
		if g.UUID == "" && g.PCIBusID == "" {
			nameless++
		}
	}
	if nameless == 0 {
		return gpus
	}
	present, _ := pci.List(sysfs, vendorNVIDIA, classVGA, class3D) // those that can be read will do
	present = slices.DeleteFunc(present, func(d pci.Device) bool {
		return d.Driver != driverNVIDIA || taken[d.Address.String()]
	})
	if len(present) != nameless {
		return gpus
	}
	gpus = slices.Clone(gpus)
	for i := range gpus {
		if g := &gpus[i]; g.UUID == "" && g.PCIBusID == "" {
			g.PCIBusID = present[0].Address.String()
			present = present[1:]
		}
	}
	return gpus
}

// overlooked reports GPUs that only one of the kernel and NVML lists, once the driver was
// opened again for them (settled) and unless another problem is about them. Without it a
// GPU could be missing and nothing would be reported.
func (r *roster) overlooked(mismatched []mismatch, settled bool) {
	for _, m := range mismatched {
		if known := r.gpus[r.at(m.busID)]; known != nil {
			known.node = m.node
			continue
		}
		if !settled || slices.ContainsFunc(r.strangers, func(text string) bool { return strings.HasPrefix(text, m.busID+":") }) {
			continue
		}
		why := "see the kernel's log (dmesg | grep NVRM); if the GPU is dead, reboot the node"
		if m.node != "" {
			why = m.node
		}
		r.strangers = append(r.strangers, m.busID+": the NVIDIA driver has the GPU, but NVML does not list it: "+why)
	}
}

// at is the UUID of the GPU that was last seen at the bus ID.
func (r *roster) at(busID string) string {
	for uuid, known := range r.gpus {
		if busID != "" && known.gpu.PCIBusID == busID {
			return uuid
		}
	}
	return ""
}

// forget drops GPUs that were unplugged on purpose: neither NVML nor the bus has
// them. A dead GPU is still on the bus as far as the kernel knows.
func (r *roster) forget(sysfs string) {
	maps.DeleteFunc(r.gpus, func(_ string, known *record) bool {
		if known.missing.IsZero() {
			return false
		}
		address, err := pci.ParseAddress(known.gpu.PCIBusID)
		if err != nil {
			return true
		}
		_, err = pci.ReadDevice(sysfs, address)
		return errors.Is(err, os.ErrNotExist)
	})
}

// sorted are the GPUs in the order of their bus IDs.
func (r *roster) sorted() []*record {
	return slices.SortedFunc(maps.Values(r.gpus), func(a, b *record) int {
		return cmp.Or(comparePCI(a.gpu.PCIBusID, b.gpu.PCIBusID), cmp.Compare(a.gpu.UUID, b.gpu.UUID))
	})
}

func comparePCI(a, b string) int {
	first, errA := pci.ParseAddress(a)
	second, errB := pci.ParseAddress(b)
	if errA != nil || errB != nil {
		return cmp.Compare(a, b)
	}
	return first.Compare(second)
}

func stranger(g driver.GPU) string {
	where := cmp.Or(g.PCIBusID, "a GPU at an unknown bus ID")
	if g.Err == nil {
		return where + ": the GPU has no UUID, so it cannot be given to anybody"
	}
	return where + ": the GPU was dead before it said who it is, so it is not listed: " + g.Err.Error()
}

// identifier reads UUIDs from the driver's procfs, where they stay when a GPU is lost.
func identifier(procfs string) func(busID string) string {
	return func(busID string) string {
		// A GPU that never was initialised has question marks there.
		if uuid := information(procfs, busID, "GPU UUID"); strings.HasPrefix(uuid, "GPU-") && !strings.Contains(uuid, "?") {
			return uuid
		}
		return ""
	}
}

// information returns a line of what the kernel module reports about a GPU, in
// <procfs>/driver/nvidia/gpus/<bus ID>/information; "" if it has none.
func information(procfs, busID, name string) string {
	if busID == "" {
		return ""
	}
	text, err := os.ReadFile(filepath.Join(procfs, "driver/nvidia/gpus", busID, "information"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(line, ":"); key == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
