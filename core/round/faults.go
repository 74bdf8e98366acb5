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

// Verdicts adds to health's verdicts the faults of package lifecycle, such as of devices that are being reset, and of
// devices that are cordoned. It implements resource.Verdicts.
type Verdicts struct {
	Health              *health.View
	Lifecycle, Cordoned map[inventory.Key]health.Fault
}

// Verdict implements resource.Verdicts.
func (v Verdicts) Verdict(key inventory.Key) health.Verdict {
	return withFault(withFault(v.Health.Verdict(key), v.Lifecycle, key), v.Cordoned, key)
}

// Cordoned returns the faults of the devices that the entries name, and of their partitions: no new pod gets them.
// An entry of a backend that has reported, for a device that it does not have, is a problem.
func Cordoned(snapshot *inventory.Snapshot, entries []cordon.Entry) (map[inventory.Key]health.Fault, []inventory.Problem) {
	faults := map[inventory.Key]health.Fault{}
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

// Unusable returns the faults of devices that no container can be started with: those with
// a missing device node or file (missing has its path), those that cannot be reset between holders
// (unresettable has why), and those that CDI cannot give to a
// container although their resource is injected by CDI. A fault is cleared when its cause
// is gone; one that the previous round had keeps its time.
func Unusable(injected []*inventory.Device, names *cdi.Names, missing, unresettable map[inventory.Key]string, before *Round, now time.Time) map[inventory.Key]health.Fault {
	faults := map[inventory.Key]health.Fault{}
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

// WithFaults returns the table with these faults added to the verdicts. Unchanged resources
// are the same pointers.
func WithFaults(table *resource.Table, faults map[inventory.Key]health.Fault) *resource.Table {
	return withDevices(table, func(r *resource.Resource) []resource.Device {
		return addFaults(r.Devices, func(key inventory.Key) (health.Fault, bool) {
			fault, ok := faults[key]
			return fault, ok
		})
	})
}

// withDevices returns the table in which each resource has the devices that change returns for
// it; nil leaves it unchanged.
func withDevices(table *resource.Table, change func(*resource.Resource) []resource.Device) *resource.Table {
	result := *table
	result.Resources = slices.Clone(table.Resources)
	for i, r := range table.Resources {
		if devices := change(r); devices != nil {
			changed := *r
			changed.Devices = devices
			result.Resources[i] = &changed
		}
	}
	return &result
}

// addFaults returns the devices with the faults added; nil if none of them has one.
func addFaults(devices []resource.Device, fault func(inventory.Key) (health.Fault, bool)) []resource.Device {
	var changed []resource.Device
	for i, d := range devices {
		f, ok := fault(d.Key)
		if !ok {
			continue
		}
		if changed == nil {
			changed = slices.Clone(devices)
		}
		changed[i].Verdict = health.Verdict{Faults: append(slices.Clone(d.Verdict.Faults), f)}
	}
	return changed
}

// withFault returns the verdict on a device, with its fault added if faults has one.
func withFault(verdict health.Verdict, faults map[inventory.Key]health.Fault, key inventory.Key) health.Verdict {
	fault, ok := faults[key]
	if !ok {
		return verdict
	}
	return health.Verdict{Faults: append(slices.Clone(verdict.Faults), fault)}
}
