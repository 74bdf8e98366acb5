// Package doctor finds where on the way from the PCI bus to a pod each device of a node stops, and
// what to do about it.
//
//	bus, agent's report ──► Node ──► steps, in the order of the way ──► Result
//
// Each step is a file. It reads the node and what the running agent reports; it computes nothing
// that the agent reports, changes nothing, and starts nothing but a container runtime's --version.
// What the API server has of the node is read before the walk.
// A step that cannot be checked from where doctor runs is [NotChecked], never [OK].
package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/pcibus"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/status/listing"
)

// State is what is known of a step or a device.
type State string

// The states.
const (
	OK         State = "ok"
	Stops      State = "stops"
	NotChecked State = "not checked"
)

// Finding is the state of a step, or of a device at a step.
type Finding struct {
	State State `json:"state"`
	// Why is the reason, or what was found.
	Why string `json:"why,omitempty"`
	// Do is what the operator should do; "" unless State is Stops.
	Do string `json:"do,omitempty"`
}

// Node is what is examined.
type Node struct {
	// Root is the root directory, where the vendors' libraries are.
	Root, Sysfs, Devfs, Procfs, CDIDir string
	// Hardware is what the manifests in the backend directory serve on the PCI bus.
	Hardware pcibus.Table
	// KubeletDir and KubeletRootDir are those of [status.Report].
	KubeletDir, KubeletRootDir string
	Runtime                    Runtime
	// ConfigPath is the configuration file, and Config what is in it; ConfigErr is why there is none.
	ConfigPath string
	Config     *config.NodeConfig
	ConfigErr  error
	// Report and Devices are the running agent's. AgentErr is why it could not be asked; Report is nil then.
	Report   *status.Report
	Devices  []listing.Device
	AgentErr error
	// Cluster is what the API server has of the node; ClusterErr is why that is not known, if it is nil.
	Cluster    *Cluster
	ClusterErr error
}

// StepResult is the result of one step.
type StepResult struct {
	Step string `json:"step"`
	Finding
}

// Device is one device, or an accelerator on the PCI bus that no backend lists.
type Device struct {
	// Backend and Resource are "" if there is none.
	Backend  string `json:"backend,omitempty"`
	ID       string `json:"id"`
	PCIBusID string `json:"pciBusID,omitempty"`
	Resource string `json:"resource,omitempty"`
	// StopsAt is the first step that the device does not pass; "" if it passes all that were checked.
	StopsAt string `json:"stopsAt,omitempty"`
	Finding

	onBus    *pcibus.Accelerator
	listed   *listing.Device
	resource *status.Resource
}

// Result is what was found.
type Result struct {
	Steps   []StepResult `json:"steps"`
	Devices []*Device    `json:"devices"`
}

// Stopped reports whether a step or a device stops.
func (r Result) Stopped() bool {
	return slices.ContainsFunc(r.Steps, func(s StepResult) bool { return s.State == Stops }) ||
		slices.ContainsFunc(r.Devices, func(d *Device) bool { return d.State == Stops })
}

// step checks one step. It stops devices by walk.stop, and returns what is true of the whole node:
// with Stops it has a cause of its own, also where no device is stopped.
type step struct {
	name  string
	check func(*walk) Finding
}

// steps are those from the PCI bus to the pod.
var steps = []step{
	{"hardware", hardware},
	{"kernel driver", driver},
	{"device nodes", deviceNodes},
	{"library", library},
	{"configuration", configuration},
	{"agent", agent},
	{"backend", backend},
	{"inventory", inventory},
	{"resource", selected},
	{cdiStep, cdiSpecs},
	{"container runtime", containerRuntime},
	{"kubelet", kubelet},
	{"kubelet's root directory", kubeletRoot},
	{"allocatable", allocatable},
	{"DRA", dra},
	{nodeStep, node},
}

// walk is one examination.
type walk struct {
	Node
	devices []*Device
	busErr  error
	step    string
}

// Examine goes through all steps.
func Examine(n Node) Result {
	w := &walk{Node: n, devices: []*Device{}}
	w.find()
	r := Result{Devices: w.devices}
	for _, s := range steps {
		w.step = s.name
		found := s.check(w)
		stopped := slices.DeleteFunc(slices.Clone(w.devices), func(d *Device) bool { return d.StopsAt != s.name })
		if len(stopped) > 0 && found.State != Stops {
			found = Finding{State: Stops, Why: fmt.Sprintf("%d of %d devices stop here", len(stopped), len(w.devices))}
		}
		r.Steps = append(r.Steps, StepResult{s.name, found})
	}
	var unknown []string
	for _, s := range r.Steps {
		if s.State == NotChecked {
			unknown = append(unknown, s.Step)
		}
	}
	for _, d := range w.devices {
		switch {
		case d.State != "":
		case len(unknown) > 0:
			d.Finding = Finding{State: NotChecked, Why: "nothing stops it as far as that was checked; not checked: " + strings.Join(unknown, ", ")}
		default:
			d.State = OK
		}
	}
	return r
}

// find lists the accelerators on the PCI bus, each as the devices that backends list of it, and the
// devices that are on no PCI bus.
func (w *walk) find() {
	found, err := pcibus.Read(w.Sysfs, w.Hardware)
	if w.busErr = err; errors.Is(err, fs.ErrNotExist) {
		w.busErr = nil // a machine without a PCI bus
	}
	profile := w.profile()
	bySlot, used := map[string]*pcibus.Accelerator{}, map[string]bool{}
	for i, a := range found {
		bySlot[slot(a.Address)] = &found[i]
	}
	for i := range w.Devices {
		listed := &w.Devices[i]
		d := &Device{Backend: listed.Backend, ID: listed.ID, PCIBusID: listed.PCIBusID, Resource: listed.Resource, listed: listed, onBus: bySlot[slot(listed.PCIBusID)]}
		if at := slices.IndexFunc(w.Report.Resources, func(r status.Resource) bool { return r.Name == listed.Resource }); at >= 0 {
			d.resource = &w.Report.Resources[at]
		}
		used[slot(listed.PCIBusID)] = true
		w.devices = append(w.devices, d)
	}
	for _, a := range found {
		if !used[slot(a.Address)] && !profile.Ignores(a.Vendor, a.Device) {
			w.devices = append(w.devices, &Device{ID: a.Vendor + ":" + a.Device, PCIBusID: a.Address, onBus: bySlot[slot(a.Address)]})
		}
	}
}

// profile is the one in force, or the only one; nil if it is not known.
func (w *walk) profile() *config.Profile {
	if w.Config == nil {
		return nil
	}
	if w.Report == nil && len(w.Config.Profiles) == 1 {
		return &w.Config.Profiles[0]
	}
	for i := range w.Config.Profiles {
		if w.Report != nil && w.Config.Profiles[i].Name == w.Report.Config.Profile {
			return &w.Config.Profiles[i]
		}
	}
	return nil
}

// stop stops a device at the present step, unless an earlier one has.
func (w *walk) stop(d *Device, why, do string) { w.stopAt(w.step, d, why, do) }

func (w *walk) stopAt(step string, d *Device, why, do string) {
	if d.StopsAt == "" {
		d.StopsAt, d.Finding = step, Finding{Stops, why, do}
	}
}

// stopAll stops all devices of which the condition is true, and returns that as the node's finding.
func (w *walk) stopAll(of func(*Device) bool, why, do string) Finding {
	for _, d := range w.devices {
		if of(d) {
			w.stop(d, why, do)
		}
	}
	return Finding{Stops, why, do}
}

func every(*Device) bool { return true }

// unknown is a step that only the agent could answer.
func (w *walk) unknown() Finding {
	return Finding{State: NotChecked, Why: "only a running agent knows it"}
}

// slot is the address of a PCI device without the function.
func slot(address string) string {
	at, _, _ := strings.Cut(address, ".")
	return at
}
