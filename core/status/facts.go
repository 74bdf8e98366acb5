package status

import (
	"context"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/accelmux/accelmux/core/conflict"
	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/core/diagram"
	"github.com/accelmux/accelmux/core/features"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/pcibus"
	"github.com/accelmux/accelmux/core/profile"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/status/listing"
	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/core/telemetry"
	"github.com/accelmux/accelmux/core/topology"
)

// Facts is what the parts of an agent know at one moment. The report, the devices and the
// topologies are computed from it, and from nothing else.
type Facts struct {
	Agent   Agent
	Profile profile.Status
	// Cluster is the connection to the API server; nil without one.
	Cluster  *Cluster
	Backends []supervisor.Status
	// Inventory also has backends that start for a plan which is not in force yet.
	Inventory *inventory.Snapshot
	// Round is the newest; nil before the first.
	Round       *round.Round
	Allocations map[inventory.Key][]holders.Allocation
	Kubelet     Kubelet
	// Drivers are those that serve resources by dynamic resource allocation.
	Drivers []Driver
	// Slices returns what the drivers publish; nil without drivers.
	Slices func() []*resourceapi.ResourceSlice
	// Sysfs is the root of sysfs, with the PCI bus, and Hardware returns what the manifests in the backend directory serve
	// there: to read them all takes as long as a backend's start, so only a report does.
	Sysfs    string
	Hardware func() pcibus.Table
	// Reset returns why a device that a reset may help is not reset; "" if nothing is wrong.
	Reset func(*inventory.Device) string
	// Features publishes the node's features; nil for nowhere.
	Features  *features.Publisher
	Telemetry *telemetry.Telemetry
	// Problems are those that the parts report as they are shown.
	Problems []Problem
}

// Agent is what an agent knows of itself.
type Agent struct {
	Role      Role
	Node      string
	StartedAt time.Time
	Others    []Other
	// CDIDir, KubeletDir and KubeletRootDir are those of [Report].
	CDIDir, KubeletDir, KubeletRootDir string
	// Waits is what keeps an agent on standby from taking over, beside its backends.
	Waits []string
}

// Kubelet is what is known of kubelet and of other device plugins.
type Kubelet struct {
	// Missing is why kubelet cannot be reached; "" if it can.
	Missing   string
	Resources []deviceplugin.Status
	// Topology returns what chooses among the units of a resource; nil if kubelet does not
	// know the resource yet.
	Topology func(resource string) *topology.Topology
	// Conflicts are those with other device plugins.
	Conflicts []conflict.Conflict
}

// rooms is a Source that computes everything from facts.
type rooms struct {
	facts func() Facts
	alive func()
}

// NewSource returns a Source of what facts returns. alive is that of Source.
func NewSource(facts func() Facts, alive func()) Source { return rooms{facts, alive} }

func (r rooms) Report() Report                  { return r.facts().Report() }
func (r rooms) Devices() []listing.Device       { return r.facts().devices() }
func (r rooms) Healths(show func(DeviceHealth)) { r.facts().healths(show) }
func (r rooms) Alive()                          { r.alive() }

func (r rooms) Telemetry(ctx context.Context) listing.Telemetry { return r.facts().measured(ctx) }

func (r rooms) Topology(name string) ([]diagram.Topology, error) { return r.facts().topology(name) }

func (r rooms) Explain(ctx context.Context, question diagram.Question) (diagram.Choice, error) {
	return r.facts().explain(ctx, question)
}

func (r rooms) Slices() []*resourceapi.ResourceSlice {
	if f := r.facts(); f.Slices != nil {
		return f.Slices()
	}
	return nil
}

func (f Facts) devices() []listing.Device {
	v, devices := f.Round, []listing.Device{}
	v.Each(func(d *inventory.Device, verdict health.Verdict) {
		name, _ := v.Names.Qualified(d.Key)
		devices = append(devices, listing.Device{
			Backend: d.Backend, ID: d.ID, Class: d.Class, Resource: v.ResourceOf(d.Key), Replicas: v.Replicas()[d.Key],
			Healthy: verdict.Healthy, Faults: faults(verdict),
			NUMANodes: d.NUMANodes, PCIBusID: d.PCIBusID, PCIeRoot: d.PCIeRoot, Parent: d.Parent,
			Attributes: attributes(d), Versions: versions(d), Capacities: d.Capacities.Map(), Potential: d.Potential, MadeFor: d.MadeFor,
			CDI: name, Holders: f.holders(d.Key),
		})
	})
	return devices
}

func (f Facts) healths(show func(DeviceHealth)) {
	f.Round.Each(func(d *inventory.Device, verdict health.Verdict) {
		is := DeviceHealth{Backend: d.Backend, ID: d.ID, Resource: f.Round.ResourceOf(d.Key), Healthy: verdict.Healthy}
		if len(verdict.Faults) > 0 {
			is.Fault = verdict.Faults[0].Code
		}
		show(is)
	})
}

// measured may wait for first samples.
func (f Facts) measured(ctx context.Context) listing.Telemetry {
	readings := f.Telemetry.Read(ctx)
	answer := listing.Telemetry{Devices: []listing.Measured{}, Missing: f.Telemetry.Unmeasured()}
	place := map[inventory.Key]int{}
	f.Round.Each(func(d *inventory.Device, verdict health.Verdict) {
		place[d.Key] = len(answer.Devices)
		memory, _ := d.Capacities.Get("memory")
		answer.Devices = append(answer.Devices, listing.Measured{
			Backend: d.Backend, ID: d.ID, Class: d.Class, Resource: f.Round.ResourceOf(d.Key), Parent: d.Parent,
			Healthy: &verdict.Healthy, Faults: faults(verdict), Memory: memory, Holders: f.holders(d.Key),
		})
	})
	for _, r := range readings {
		i, listed := place[r.Device]
		if !listed {
			i = len(answer.Devices)
			answer.Devices = append(answer.Devices, listing.Measured{Backend: r.Device.Backend, ID: r.Device.ID})
		}
		d := &answer.Devices[i]
		d.SampledAt, d.Values = &r.At, values(r)
	}
	return answer
}

func (f Facts) holders(key inventory.Key) []listing.Holder {
	var all []listing.Holder
	for _, a := range f.Allocations[key] {
		holder := listing.Holder{Resource: a.Resource, Unit: a.Unit, Ending: a.Ending}
		if c := a.Claim; c != nil { // its unit is internal
			holder = listing.Holder{Namespace: c.Namespace, Claim: c.Name, Resource: f.Round.ResourceOf(key)}
		}
		if len(a.Containers) == 0 {
			all = append(all, holder)
		}
		for _, c := range a.Containers {
			holder.Namespace, holder.Pod, holder.Container = c.Namespace, c.Pod, c.Name
			all = append(all, holder)
		}
	}
	return all
}

func faults(verdict health.Verdict) []listing.Fault {
	var all []listing.Fault
	for _, f := range verdict.Faults {
		all = append(all, listing.Fault{
			Code: f.Code, Message: f.Message, Recovery: f.Recovery.String(), Reach: string(f.Reach), Since: f.Since, From: f.From,
		})
	}
	return all
}

func attributes(d *inventory.Device) map[string]any {
	values := make(map[string]any, len(d.Attributes))
	for name, attribute := range d.Attributes.All() {
		values[name] = attribute.Value
	}
	return values
}

func versions(d *inventory.Device) (names []string) {
	for name, attribute := range d.Attributes.All() {
		switch attribute.Value.(type) {
		case inventory.Version, []inventory.Version:
			names = append(names, name)
		}
	}
	return names
}

func values(r telemetry.Reading) []listing.Value {
	all := make([]listing.Value, len(r.Values))
	for i, v := range r.Values {
		all[i] = listing.Value(v)
	}
	return all
}
