package nvidia

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/edits"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
)

// records has the GPUs of the node by UUID, so that earlier values of a failing GPU remain.
type records map[string]*record

// record is one GPU.
type record struct {
	// gpu is what NVML reported last, with earlier values where it reports none now.
	gpu driver.GPU
	// at is the GPU in sysfs; its vendor is zero if sysfs does not have it.
	at pci.Device
	// faults are the faults that events reported, by scope; see judge.go.
	faults map[scope]fault
	xids   xidCounts
	// given has the edits of the GPU and of its MIG devices, by UUID.
	given map[string]given
	// fresh: the driver has initialized the GPU again, and no event reported a fault since.
	fresh bool
	// wasLost: the GPU was lost and has passed no self-test since. answering is the time since
	// when it has answered without an error; zero if it does not answer. answered: it has
	// answered for as long as a self-test takes.
	wasLost, answered bool
	answering         time.Time
	// missing: NVML does not list the GPU. node is then the problem of its device node;
	// "" if there is none.
	missing bool
	node    string
	// reset is the time of its reset, until a scan has shown whether it helped; otherwise zero.
	reset time.Time
}

// given is the edits of a device, or why there are none.
type given struct {
	edits *sdk.Edits
	err   error
}

// scope is a GPU as a whole, or one of its MIG devices.
type scope struct {
	gpuInstance, computeInstance uint32
}

var whole = scope{driver.Whole, driver.Whole}

// covers reports whether an event of scope s affects the MIG device.
func (s scope) covers(i driver.Instance) bool {
	return (s.gpuInstance == driver.Whole || s.gpuInstance == i.GPUInstance) &&
		(s.computeInstance == driver.Whole || s.computeInstance == i.ComputeInstance)
}

func (s scope) compare(o scope) int {
	return cmp.Or(cmp.Compare(s.gpuInstance, o.gpuInstance), cmp.Compare(s.computeInstance, o.computeInstance))
}

// take updates the records by a snapshot, and returns problems of GPUs without a UUID. A GPU
// that NVML does not list is dropped unless its driver still has it.
func (r records) take(s driver.Snapshot, host sdk.HostPaths) (problems []engine.Problem) {
	seen := map[string]bool{}
	for _, g := range placed(s.GPUs, host.Sysfs) {
		if g.UUID == "" {
			g.UUID = cmp.Or(r.at(g.PCIBusID), identifier(host.Procfs, g.PCIBusID))
		}
		if g.UUID == "" {
			problems = append(problems, unidentified(g))
			continue
		}
		seen[g.UUID] = true
		if r[g.UUID] == nil {
			r[g.UUID] = &record{faults: map[scope]fault{}, xids: xidCounts{}}
		}
		r[g.UUID].update(g, host.Sysfs)
	}
	maps.DeleteFunc(r, func(uuid string, k *record) bool {
		if seen[uuid] {
			return false
		}
		k.missing, k.at = true, device(host.Sysfs, k.gpu.PCIBusID)
		return k.at.Driver != driverNVIDIA && k.reset.IsZero()
	})
	return problems
}

// update stores what NVML reports. A GPU that could not be read keeps its earlier values.
func (k *record) update(g driver.GPU, sysfs string) {
	k.missing, k.node = false, ""
	before := k.gpu
	if g.Err != nil && before.UUID != "" {
		before.Err, before.Index = g.Err, g.Index
		before.PCIBusID = cmp.Or(g.PCIBusID, before.PCIBusID)
		g = before
	}
	k.gpu, k.at = g, device(sysfs, g.PCIBusID)
}

// device returns the PCI device at a bus ID, without a vendor if sysfs does not have it.
func device(sysfs, busID string) pci.Device {
	address, err := pci.ParseAddress(busID)
	if err != nil {
		return pci.Device{NUMANode: -1}
	}
	if d, err := pci.ReadDevice(sysfs, address); err == nil {
		return d
	}
	return pci.Device{Address: address, NUMANode: -1}
}

// give stores the present edits. A GPU that could not be read keeps its earlier
// ones.
func (k *record) give(set *edits.Set) {
	if k.gpu.Err != nil || k.missing {
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

// answerLimit is how long a GPU may take to answer after its reset.
const answerLimit = 30 * time.Second

var errNotBack = errors.New("the GPU was reset and does not answer yet")

// awaits reports whether the GPU was reset and does not answer yet, for answerLimit at most.
// Its faults stay as they are meanwhile.
func (k *record) awaits(now time.Time) bool {
	if k.reset.IsZero() || k.gpu.Err == nil && !k.missing {
		return false
	}
	if now.Sub(k.reset) >= answerLimit {
		k.reset = time.Time{}
		return false
	}
	k.gpu.Err, k.missing = errNotBack, false
	return true
}

// placed returns the GPUs, with bus IDs for those of which NVML reports only the index. Such a
// GPU has failed since before NVML was opened. They must be the GPUs that the driver has on the
// bus at addresses of no other GPU, if there are as many. NVML counts in the order of
// the bus.
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
	present, _ := pci.List(sysfs, vendorNVIDIA, classVGA, class3D) // unreadable devices are left out
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

// overlooked adds problems of GPUs that only one of the kernel and NVML lists, once the driver
// was opened again for them (settled), unless there is a problem at that address. Otherwise
// a GPU could be missing without a report.
func (r records) overlooked(mismatched []mismatch, settled bool, problems []engine.Problem) []engine.Problem {
	for _, m := range mismatched {
		if known := r[r.at(m.busID)]; known != nil {
			known.node = m.node
			continue
		}
		if !settled || slices.ContainsFunc(problems, func(p engine.Problem) bool { return p.Device == m.busID }) {
			continue
		}
		why := "see the kernel's log (dmesg | grep NVRM); if the GPU is dead, reboot the node"
		if m.node != "" {
			why = m.node
		}
		// Lost: a device node may come late, so the next scan is sooner than the interval.
		problems = append(problems, engine.Problem{Device: m.busID, Lost: m.node != "", Err: errors.New("the NVIDIA driver has the GPU, but NVML does not list it: " + why)})
	}
	return problems
}

// at returns the UUID of the GPU that was last read at the bus ID.
func (r records) at(busID string) string {
	for uuid, known := range r {
		if busID != "" && known.gpu.PCIBusID == busID {
			return uuid
		}
	}
	return ""
}

// concerned returns the UUID of the GPU of an event; "" if unknown.
func (r records) concerned(event driver.Event) string {
	if r[event.GPU] != nil {
		return event.GPU
	}
	return r.at(event.PCIBusID)
}

// unidentified returns the problem of a GPU without a UUID.
func unidentified(g driver.GPU) engine.Problem {
	where := cmp.Or(g.PCIBusID, "a GPU at an unknown bus ID")
	if g.Err == nil {
		return engine.Problem{Device: where, Err: errors.New("the GPU has no UUID, so no container can be given it")}
	}
	return engine.Problem{Device: where, Err: fmt.Errorf("the GPU failed before the driver reported its UUID, so it is not listed: %w", g.Err)}
}

// identifier returns the UUID of the GPU at a bus ID from the driver's procfs, where it stays
// when the GPU is lost; "" if it is not there.
func identifier(procfs, busID string) string {
	// A GPU that was never initialized has question marks there.
	if uuid := information(procfs, busID, "GPU UUID"); strings.HasPrefix(uuid, "GPU-") && !strings.Contains(uuid, "?") {
		return uuid
	}
	return ""
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

// mismatch is a GPU that only one of the kernel and NVML lists.
type mismatch struct {
	busID string
	// node is the problem of its device node; "" if there is none. NVML does not list a
	// GPU whose node it cannot open.
	node string
}

// mismatches returns GPUs that NVIDIA's kernel module has and NVML does not list, or the
// other way round. NVML counts GPUs when it is opened. Without a PCI bus in sysfs there
// are none.
func mismatches(host sdk.HostPaths, s driver.Snapshot, missingNode func(minor int) error) []mismatch {
	present, _ := pci.List(host.Sysfs, vendorNVIDIA, classVGA, class3D) // unreadable devices are left out
	if len(present) == 0 {
		return nil
	}
	listed := map[string]bool{}
	for _, g := range s.GPUs {
		if g.PCIBusID != "" {
			listed[g.PCIBusID] = true
		}
	}
	var left []mismatch
	for _, device := range present {
		at := device.Address.String()
		bound := device.Driver == driverNVIDIA
		if listed[at] != bound {
			left = append(left, mismatch{busID: at})
		}
		if minor, err := strconv.Atoi(information(host.Procfs, at, "Device Minor")); err == nil && bound && !listed[at] {
			if err := missingNode(minor); err != nil {
				left[len(left)-1].node = err.Error()
			}
		}
		delete(listed, at)
	}
	for at := range listed {
		left = append(left, mismatch{busID: at})
	}
	slices.SortFunc(left, func(a, b mismatch) int { return strings.Compare(a.busID, b.busID) })
	return left
}
