package round

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/cordon"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// Codes of the faults of devices that no container can be started with.
const (
	CodeNoNode    = "device-node-missing"
	codeNoFile    = "file-missing"
	CodeNoCDIName = "no-cdi-name"
	codeNoReset   = "no-reset"
	// CodeCordoned is that of a device that an operator keeps from new pods.
	CodeCordoned = "cordoned"
)

// Reasons are why devices are not available beside the faults that package health stores: each ends with its cause.
// There is one for a device from each source: resets (package lifecycle), cordons, allocations, and what is missing
// for a container.
type Reasons map[inventory.Key]health.Fault

// WithVerdicts returns the table with the verdict on each device: the faults that package health knows of it, and then
// those that the sources have, in their order. Of the health of a removed device nothing is known.
func WithVerdicts(table *resource.Table, judged *health.View, sources ...Reasons) *resource.Table {
	result := *table
	result.Resources = make([]*resource.Resource, len(table.Resources))
	for i, r := range table.Resources {
		changed := *r
		changed.Devices = slices.Clone(r.Devices)
		for j := range changed.Devices {
			d := &changed.Devices[j]
			d.Verdict = health.Verdict{Healthy: true}
			if !d.Removed {
				d.Verdict = judged.Verdict(d.Key)
			}
			d.Verdict = with(d.Verdict, d.Key, sources...)
		}
		result.Resources[i] = &changed
	}
	return &result
}

// with returns the verdict on a device with the reasons that the sources have.
func with(verdict health.Verdict, key inventory.Key, sources ...Reasons) health.Verdict {
	faults := slices.Clip(verdict.Faults) // they are shared
	for _, reasons := range sources {
		if fault, ok := reasons[key]; ok {
			faults = append(faults, fault)
		}
	}
	if len(faults) == len(verdict.Faults) {
		return verdict
	}
	return health.Verdict{Faults: faults}
}

// Cordoned returns the reasons of the devices that the entries name, and of their partitions: no new pod gets them.
// An entry of a backend that has reported, for a device that it does not have, is a problem.
func Cordoned(snapshot *inventory.Snapshot, entries []cordon.Entry) (Reasons, []inventory.Problem) {
	faults := Reasons{}
	var problems []inventory.Problem
	for _, e := range entries {
		fault := health.Fault{Code: CodeCordoned, Message: e.String(), Recovery: inventory.RecoverySelf, Reach: inventory.ReachNewHolders, Since: e.Since}
		name, id, _ := strings.Cut(e.Device, "/")
		for _, backend := range snapshot.Backends {
			if backend.Name != name {
				continue
			}
			found := false
			for _, d := range backend.Devices {
				if d.ID == id || d.Parent == id {
					faults[d.Key], found = fault, true
				}
			}
			if !found {
				problems = append(problems, inventory.Problem{Device: id, Message: fmt.Sprintf(
					"the Node's annotation %s names it (%s), and backend %s has no such device: correct the name, or remove the entry", cordon.Annotation, e, name)})
			}
		}
	}
	return faults, problems
}

// Injected returns the devices that need a CDI definition of their own; a claim's devices have one
// for the claim. A device is in one resource.
func Injected(table *resource.Table) []*inventory.Device {
	return atKubelet(table, func(i config.Injection) bool { return i != config.InjectPlain })
}

// Plain returns the devices that kubelet gets without CDI.
func Plain(table *resource.Table) map[inventory.Key]bool {
	devices := map[inventory.Key]bool{}
	for _, d := range atKubelet(table, func(i config.Injection) bool { return i == config.InjectPlain }) {
		devices[d.Key] = true
	}
	return devices
}

// atKubelet returns the devices of the device plugin API whose resource has such an injection.
func atKubelet(table *resource.Table, has func(config.Injection) bool) []*inventory.Device {
	var devices []*inventory.Device
	for _, r := range table.Resources {
		if r.API == config.APIDRA || !has(r.Injection) {
			continue
		}
		for _, d := range r.Devices {
			devices = append(devices, d.Device)
		}
	}
	return devices
}

// Unresettable returns the devices that are to be reset between holders and cannot be, and why.
func Unresettable(p *config.Profile, snapshot *inventory.Snapshot, table *resource.Table) map[inventory.Key]string {
	why := map[inventory.Key]string{}
	for _, r := range table.Resources {
		if r.Reset != config.ResetDevicesAfterUse {
			continue
		}
		for _, d := range r.Devices {
			if reason := noReset(p.Backend(d.Backend), snapshot, d.Device); reason != "" {
				why[d.Key] = fmt.Sprintf("resource %s has reset: %s, but %s: leave out reset, or give these devices a resource of their own", r.Name, config.ResetDevicesAfterUse, reason)
			}
		}
	}
	return why
}

// noReset returns why the core cannot reset a device; "" if it can.
func noReset(policy *config.Backend, snapshot *inventory.Snapshot, d *inventory.Device) string {
	of := func(b *inventory.Backend) bool { return b.Name == d.Backend }
	i := slices.IndexFunc(snapshot.Backends, of)
	switch {
	case len(d.Consumes) > 0:
		return "the device is made for claims, or shares a card with devices that are, and is not reset"
	case policy != nil && policy.Recovery.Reset == config.ResetNever:
		return fmt.Sprintf("backend %s has recovery.reset: %s", d.Backend, config.ResetNever)
	case i >= 0 && !snapshot.Backends[i].Description.Reset:
		return fmt.Sprintf("backend %s cannot reset devices", d.Backend)
	}
	return ""
}

// Unusable returns the reasons of devices that no container can be started with: those with
// a missing device node or file (missing has its path), those that cannot be reset between holders
// (unresettable has why), and those that CDI cannot give to a
// container although their resource is injected by CDI. A fault is cleared when its cause
// is gone; one that the previous round had keeps its time.
func Unusable(injected []*inventory.Device, names *cdi.Names, missing, unresettable map[inventory.Key]string, before *Round, now time.Time) Reasons {
	faults := Reasons{}
	add := func(key inventory.Key, code, message string) {
		since := now
		if before != nil && before.Unusable[key].Code == code {
			since = before.Unusable[key].Since
		}
		faults[key] = health.Fault{Code: code, Message: message, Recovery: inventory.RecoverySelf, Since: since}
	}
	for _, d := range injected {
		if _, err := names.Qualified(d.Key); err != nil {
			add(d.Key, CodeNoCDIName, err.Error())
		}
	}
	for key, path := range missing {
		if strings.HasPrefix(path, "/dev/") {
			add(key, CodeNoNode, fmt.Sprintf("its device node %s is not on this node: is the driver loaded?", path))
		} else {
			add(key, codeNoFile, fmt.Sprintf("%s, which its containers get, is no longer on this node: is the driver's installation complete?", path))
		}
	}
	for key, why := range unresettable {
		add(key, codeNoReset, why)
	}
	return faults
}
