package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/accelmux/accelmux/core/condition"
	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/core/dra"
	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/telemetry"
	"github.com/accelmux/accelmux/core/topology"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// facts is what the parts know now, for status.
func (a *Agent) facts() status.Facts {
	f := status.Facts{
		Agent:   status.Agent{Role: a.role(), Node: a.opts.NodeName, StartedAt: a.startedAt, CDIDir: a.opts.CDIDir, KubeletDir: a.opts.KubeletDir, KubeletRootDir: a.opts.KubeletRootDir},
		Profile: a.plans.Status(), Backends: a.supervisor.Status(), Inventory: a.inventory.Snapshot(), Round: a.round.Load(),
		Sysfs: a.opts.HostPaths.Sysfs, Hardware: a.hardware, Features: a.features, Telemetry: a.telemetry,
	}
	if a.opts.Cluster != nil {
		f.Cluster = &status.Cluster{EventsFailing: len(a.events.Notes()) > 0}
		f.Cluster.Watching = a.node.Watching()
	}
	if !a.active.Load() {
		return a.standbyFacts(f)
	}
	f.Agent.Others = other(status.RoleStandby, a.claim.Standby())
	f.Allocations, f.Reset = a.book.Allocations(), a.lifecycle.ResetNotes()
	f.Kubelet = status.Kubelet{
		Missing: a.plugin.Trouble(), Resources: a.plugin.Status(), Topology: a.plugin.Topology, Conflicts: a.conflicts.Conflicts(),
	}
	a.addDrivers(&f)
	f.Slices = a.dra.Slices
	for _, note := range slices.Concat(a.events.Notes(), a.health.Notes(), a.pods.Notes(), a.book.Notes(), a.earlier.Notes(), a.cdi.Notes(), a.metrics.Notes(), a.probes.Notes(), a.condition.Notes()) {
		f.Problems = append(f.Problems, status.Problem{Message: note})
	}
	f.Problems = append(append(f.Problems, a.nodeProblems()...), a.withheld()...)
	for _, p := range a.lifecycle.Problems() {
		f.Problems = append(f.Problems, status.Problem{Backend: p.Device.Backend, Device: p.Device.ID, Message: p.Message})
	}
	return f
}

// withheld are the problems with definitions of allocated devices that are not on disk any more, and are not written
// again.
func (a *Agent) withheld() (problems []status.Problem) {
	for _, w := range a.cdi.Withheld() {
		if !a.defines(w.Device) {
			continue
		}
		who := "containers"
		if c := a.book.Claims().Find(w.Name); c != nil {
			who += " of claim " + c.String()
		}
		problems = append(problems, status.Problem{Backend: w.Device.Backend, Device: w.Device.ID, Message: fmt.Sprintf(
			"CDI device %s is no longer on disk, and is not defined again because what it gives is not allowed any more: %s that have it cannot restart; correct that, or delete their pods: %v", w.Name, who, w.Err)})
	}
	return problems
}

// nodeProblems are those of the Node as the API server has it. That labels cannot be watched is reported with the profile that they
// choose.
func (a *Agent) nodeProblems() (problems []status.Problem) {
	notes := []string{a.node.CordonProblem()}
	if a.opts.NodeCondition && a.condition == nil {
		notes = append(notes, "the condition "+string(condition.Type)+" is not written, as no API server is configured: name a kubeconfig with --kubeconfig, or leave out --node-condition")
	}
	if !a.opts.byLabels() {
		notes = append(notes, a.node.Problem())
	}
	for _, note := range notes {
		if note != "" {
			problems = append(problems, status.Problem{Message: note})
		}
	}
	return problems
}

// verdict returns the verdict of readiness for the Node's condition.
func (a *Agent) verdict() condition.Verdict {
	report := a.Report()
	text, ready := report.Summary()
	v := condition.Verdict{Ready: ready, Reason: condition.NotReady, Message: text}
	switch {
	case ready && report.Config.Profile == "":
		v.Reason = condition.NoProfile
	case ready:
		v.Reason = condition.Serving
	}
	return v
}

// addDrivers adds what serves claims.
func (a *Agent) addDrivers(f *status.Facts) {
	for _, s := range a.dra.Status() {
		f.Drivers = append(f.Drivers, status.Driver{
			Name: s.Driver, Backend: s.Backend, Devices: s.Devices, Slices: s.Slices, Claims: s.Claims, Registered: s.Registered, Published: s.Published, Problem: s.Problem, Notes: s.Notes,
		})
		for _, p := range s.Omissions {
			f.Problems = append(f.Problems, status.Problem{Backend: s.Backend, Device: p.Device, Message: p.Message})
		}
	}
	for _, p := range slices.Concat(a.dra.Problems(), a.claims.Problems()) {
		f.Problems = append(f.Problems, status.Problem{Device: p.Device, Message: p.Message})
	}
}

// alive returns when the parts that the node depends on have answered.
func (a *Agent) alive() {
	a.plans.InForce()
	a.supervisor.Status()
	if a.active.Load() {
		a.plugin.Status()
		a.book.Notes()
	}
}

// MetricsAddress is where metrics are served, host:port; "" while they are not.
func (a *Agent) MetricsAddress() string { return a.metrics.Address() }

// sample is the supervisor's Sample, which there is only once all parts are open.
func (a *Agent) sample(ctx context.Context, backend string, interval time.Duration, take func(*backendv1.SampleResponse)) error {
	return a.supervisor.Sample(ctx, backend, interval, take)
}

// owners returns who has a device by the newest round. An agent on standby, which is scraped as well, does not
// know that.
func (a *Agent) owners() func(inventory.Key) (telemetry.Owner, bool) {
	if !a.active.Load() {
		return func(inventory.Key) (telemetry.Owner, bool) { return telemetry.Owner{}, false }
	}
	return telemetry.OwnersOf(a.round.Load(), a.book.OwnerOf)
}

// chosen counts a choice of units for a container.
func (a *Agent) chosen(name string, choice topology.Result, took time.Duration) {
	a.tally.Chosen(name, string(choice.Method), took)
}

// answered counts a call of kubelet's that has ended.
func (a *Agent) answered(call deviceplugin.Call, name string, took time.Duration, err error) {
	switch call {
	case deviceplugin.CallAllocate:
		a.tally.Allocated(name, took, err)
	case deviceplugin.CallPreStart:
		a.tally.Prepared(name, took, err)
	}
}

// claimAnswered counts a call of kubelet's for a claim that has ended.
func (a *Agent) claimAnswered(call dra.Call, driver string, took time.Duration, err error) {
	switch call {
	case dra.CallPrepare:
		a.tally.ClaimPrepared(driver, took, err)
	case dra.CallUnprepare:
		a.tally.ClaimUnprepared(driver, took, err)
	}
}

// kubeletTrouble records that kubelet cannot be reached, or with "" that it can.
func (a *Agent) kubeletTrouble(text string) {
	if text == "" {
		a.log.Info("kubelet found")
		a.events.Record(events.KubeletFound, "kubelet is there, its socket exists")
		return
	}
	a.log.Error("no resource can be registered", "error", text)
	a.events.Record(events.KubeletMissing, "no resource can be registered: %s", text)
}
