package agent

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/supervisor"
)

// Report implements status.Source.
func (a *Agent) Report() status.Report {
	current := a.plans.Status()
	report := status.Report{
		Role: status.RoleActive, Node: a.opts.NodeName, Version: status.Version, PID: os.Getpid(), StartedAt: a.startedAt,
		Config: status.Config{
			Path: current.Path, Profile: current.Profile, Reason: current.Reason, AppliedAt: current.AppliedAt,
			Refused: current.Refused, Unchosen: current.Unchosen, Waits: current.Waits,
		},
		Cluster:  a.reportCluster(),
		Backends: []status.Backend{}, Resources: []status.Resource{}, Problems: []status.Problem{},
	}
	if !a.active.Load() {
		return a.reportSuccessor(report)
	}
	a.reportOthers(&report)
	a.reportConflicts(&report)
	report.KubeletMissing = a.plugin.Trouble()
	a.reportNode(&report, current.Problems)
	v := a.view.Load()
	a.reportBackends(&report)
	a.reportResources(&report, v)
	reportParameters(&report, v)
	reportEmpty(&report, v)
	a.reportHardware(&report, v)
	reportUnselected(&report, v)
	a.reportDevices(&report, v)
	report.Problems = append(report.Problems, a.unreleased.problems()...)
	a.reportFeatures(&report)
	a.reportTelemetry(&report)
	report.NotReady = append(a.notReady(v), a.conflicting(v)...)
	report.Problems = status.Bound(status.Fold(report.Problems))
	return report
}

// reportCluster is how it stands with the API server; nil without one.
func (a *Agent) reportCluster() *status.Cluster {
	if a.opts.Cluster == nil {
		return nil
	}
	cluster := &status.Cluster{EventsFailing: len(a.events.Notes()) > 0}
	if a.selection != nil {
		watching := a.selection.Watching()
		cluster.Watching = &watching
	}
	return cluster
}

// reportSuccessor is the report before this is the active agent.
func (a *Agent) reportSuccessor(report status.Report) status.Report {
	report.Role, report.Others = status.RoleSuccessor, others(a.place.Active())
	a.reportBackends(&report)
	waits := "its backends start"
	if known := a.waits.Load(); known != nil {
		waits = *known
	}
	report.NotReady = []string{"another agent is active: " + waits}
	return report
}

// reportNode adds what is wrong with the agent itself.
func (a *Agent) reportNode(report *status.Report, choice []string) {
	notes := slices.Concat(choice, a.events.Notes(), a.health.Notes(), a.book.Notes(), a.cdi.Notes(), a.endpoint.Notes())
	if report.KubeletMissing != "" {
		notes = append(notes, report.KubeletMissing)
	}
	for _, note := range notes {
		report.Problems = append(report.Problems, status.Problem{Message: note})
	}
}

func (a *Agent) reportBackends(report *status.Report) {
	known := map[string]*inventory.Backend{}
	// Also of backends that are starting for a plan that is not in force yet.
	for _, backend := range a.inventory.Snapshot().Backends {
		known[backend.Name] = backend
	}
	for _, s := range a.supervisor.Status() {
		entry := status.Backend{
			Name: s.Name, Vendor: s.Description.Vendor, Version: s.Description.Version,
			State: string(s.State), Since: s.Since, PID: s.PID, Restarts: s.Restarts, LastError: s.LastError,
		}
		if !s.RetryAt.IsZero() {
			entry.RetryAt = &s.RetryAt
		}
		if backend := known[s.Name]; backend != nil {
			entry.Devices, entry.Generation = len(backend.Devices), backend.Generation
			for _, problem := range backend.Problems {
				report.Problems = append(report.Problems, status.Problem{
					Backend: s.Name, Device: problem.Device, Message: problem.Message,
				})
			}
		}
		wrong := slices.Clone(s.Problems)
		named := func(problem string) bool { return strings.Contains(problem, s.LastError) }
		if s.State != supervisor.Running && s.LastError != "" && !slices.ContainsFunc(wrong, named) {
			wrong = append(wrong, s.LastError)
		}
		for _, problem := range wrong {
			report.Problems = append(report.Problems, status.Problem{Backend: s.Name, Message: problem})
		}
		report.Backends = append(report.Backends, entry)
	}
}

func (a *Agent) reportResources(report *status.Report, v *round.Round) {
	allocated := map[string]int{}
	for _, holds := range a.book.Holds() {
		for _, hold := range holds {
			allocated[hold.Resource]++
		}
	}
	for _, s := range a.plugin.Status() {
		entry := status.Resource{
			Name: s.Resource, State: string(s.State), Since: s.Since, Socket: s.Socket,
			Registrations: s.Registrations,
			Units:         s.Healthy + s.Unhealthy, Healthy: s.Healthy, Allocated: allocated[s.Resource], LastError: s.Error,
		}
		if s.Unlisted {
			entry.Note = "no longer configured: it stays registered with kubelet, without devices, until the agent ends"
		}
		if r := v.Resource(s.Resource); r != nil {
			entry.Registration, entry.Injection = string(r.Registration), string(r.Injection)
		}
		report.Resources = append(report.Resources, entry)
		for _, note := range append([]string{s.Error}, s.Notes...) {
			if note != "" {
				report.Problems = append(report.Problems, status.Problem{Resource: s.Resource, Message: note})
			}
		}
	}
	if v == nil {
		return
	}
	for _, r := range v.Table.Resources {
		if note := r.HoldersNote(); note != "" {
			report.Problems = append(report.Problems, status.Problem{Resource: r.Name, Message: note})
		}
	}
	for _, problem := range v.Table.Problems {
		report.Problems = append(report.Problems, status.Problem{Device: problem.Device, Message: problem.Message})
	}
}

// maxFaults bounds the faults of a backend's devices that a report considers, before faults
// with the same cause are folded into one problem.
const maxFaults = 2 * inventory.MaxDevices

// reportDevices adds what is wrong with single devices.
func (a *Agent) reportDevices(report *status.Report, v *round.Round) {
	waiting, count := a.resets.waiting(), map[string]int{}
	v.Each(func(device *inventory.Device, verdict health.Verdict) {
		for _, fault := range verdict.Faults {
			if count[device.Backend]++; count[device.Backend] > maxFaults {
				continue
			}
			message := "unhealthy: " + fault.Code + ": " + fault.Message + " (needs: " + fault.Recovery.String() + ")"
			if fault.From != "" {
				message += "; it is the fault of " + fault.From + ", which this is a part of"
			}
			if reason := waiting[groupOf(device)]; reason != "" && fault.Recovery == inventory.RecoveryReset {
				message += "; " + reason
			}
			report.Problems = append(report.Problems, status.Problem{
				Backend: device.Backend, Device: device.ID, Message: message,
			})
		}
	})
	for _, backend := range slices.Sorted(maps.Keys(count)) {
		if more := count[backend] - maxFaults; more > 0 {
			report.Problems = append(report.Problems, status.Problem{
				Backend: backend, Message: fmt.Sprintf("its devices have %d more faults; see accelmux devices", more),
			})
		}
	}
}

// MetricsAddress is where metrics are served, host:port; "" while they are not.
func (a *Agent) MetricsAddress() string { return a.endpoint.Address() }

// Alive implements status.Source. It returns when the parts that the node depends on have
// answered.
func (a *Agent) Alive() {
	a.plans.InForce()
	a.supervisor.Status()
	if a.active.Load() {
		a.plugin.Status()
		a.book.Notes()
	}
}

// Devices implements status.Source.
func (a *Agent) Devices() []status.Device {
	v := a.view.Load()
	devices := []status.Device{}
	v.Each(func(d *inventory.Device, verdict health.Verdict) {
		name, _ := v.Names.Qualified(d.Key)
		devices = append(devices, status.Device{
			Backend: d.Backend, ID: d.ID, Class: d.Class, Resource: v.ResourceOf(d.Key), Replicas: v.Replicas()[d.Key],
			Healthy: verdict.Healthy, Faults: faults(verdict),
			NUMANodes: d.NUMANodes, PCIBusID: d.PCIBusID, Parent: d.Parent,
			Attributes: attributes(d), Capacities: d.Capacities.Map(), Potential: d.Potential,
			CDI: name, Holders: a.holders(d.Key),
		})
	})
	return devices
}

// Healths implements status.Source.
func (a *Agent) Healths(show func(status.DeviceHealth)) {
	v := a.view.Load()
	v.Each(func(d *inventory.Device, verdict health.Verdict) {
		is := status.DeviceHealth{Backend: d.Backend, ID: d.ID, Resource: v.ResourceOf(d.Key), Healthy: verdict.Healthy}
		if len(verdict.Faults) > 0 {
			is.Fault = verdict.Faults[0].Code
		}
		show(is)
	})
}

func (a *Agent) holders(key inventory.Key) []status.Holder {
	var holders []status.Holder
	for _, h := range a.book.Holders(key) {
		holders = append(holders, status.Holder{
			Namespace: h.Namespace, Pod: h.Pod, Container: h.Container, Resource: h.Resource, Unit: h.Unit, Ending: h.Ending,
		})
	}
	return holders
}

func faults(verdict health.Verdict) []status.Fault {
	var faults []status.Fault
	for _, f := range verdict.Faults {
		faults = append(faults, status.Fault{
			Code: f.Code, Message: f.Message, Recovery: f.Recovery.String(), Reach: string(f.Reach), Since: f.Since, From: f.From,
		})
	}
	return faults
}

func attributes(d *inventory.Device) map[string]any {
	values := make(map[string]any, len(d.Attributes))
	for name, attribute := range d.Attributes.All() {
		values[name] = attribute.Value
	}
	return values
}
