package agent

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// Codes of the faults of devices that no container can be started with.
const (
	codeNoNode    = "device-node-missing"
	codeNoCDIName = "no-cdi-name"
)

// Intervals of checks for device nodes: of all, and while one is missing.
const (
	nodesInterval        = 30 * time.Second
	missingNodesInterval = 2 * time.Second
)

// nodes finds out which device nodes are missing on the node. Only paths below /dev can be
// checked: other directories of the host are not visible from a container. Its methods are
// for one goroutine.
type nodes struct {
	host inventory.HostNodes
	// absent has the checked paths, and whether they are missing; all are checked again at
	// next.
	absent map[string]bool
	next   time.Time
}

// missing returns the devices with a missing device node, each with the node's path. The
// next call is due at n.next.
func (n *nodes) missing(snapshot *inventory.Snapshot, now time.Time) map[inventory.Key]string {
	if !now.Before(n.next) {
		n.absent, n.next = map[string]bool{}, now.Add(nodesInterval)
	}
	missing := map[inventory.Key]string{}
	if _, err := os.Stat(n.host.Devfs); err != nil {
		return missing // there is nothing to compare with
	}
	for _, backend := range snapshot.Backends {
		for _, d := range backend.Devices {
			if path := n.firstMissing(d.Edits); path != "" {
				missing[d.Key] = path
				n.next = earliest(n.next, now.Add(missingNodesInterval))
			}
		}
	}
	return missing
}

// firstMissing returns the first device node of the edits that is missing, "" if there is
// none.
func (n *nodes) firstMissing(edits inventory.Edits) string {
	for _, node := range edits.DeviceNodes {
		absent, known := n.absent[node.HostPath]
		if !known {
			absent = n.host.Missing(node.HostPath)
			n.absent[node.HostPath] = absent
		}
		if absent {
			return node.HostPath
		}
	}
	return ""
}

// unusable returns the faults of devices that no container can be started with: those with
// a missing device node, and those that CDI cannot give to a container although their
// resource is injected by CDI. A fault is cleared as soon as its cause is gone.
func (a *Agent) unusable(snapshot *inventory.Snapshot, injected []*inventory.Device, names *cdi.Names, before *view) map[inventory.Key]health.Fault {
	now := time.Now()
	faults := map[inventory.Key]health.Fault{}
	add := func(key inventory.Key, code, message string) {
		since := now
		if before != nil && before.unusable[key].Code == code {
			since = before.unusable[key].Since
		}
		faults[key] = health.Fault{Code: code, Message: message, Recovery: inventory.RecoverySelf, Since: since}
	}
	for _, d := range injected {
		if _, err := names.Qualified(d.Key); err != nil {
			add(d.Key, codeNoCDIName, err.Error())
		}
	}
	for key, path := range a.nodes.missing(snapshot, now) {
		add(key, codeNoNode, fmt.Sprintf("its device node %s is not on this node: is the driver loaded?", path))
	}
	return faults
}

// withFaults returns the table with these faults added to the verdicts of the devices'
// units.
func withFaults(table *resource.Table, faults map[inventory.Key]health.Fault) *resource.Table {
	if len(faults) == 0 {
		return table
	}
	result := *table
	result.Resources = slices.Clone(table.Resources)
	for i, r := range table.Resources {
		var units []resource.Unit // a copy, if one of them differs
		for j := range r.Units {
			key := r.Units[j].Device.Key
			if _, ok := faults[key]; !ok {
				continue
			}
			if units == nil {
				units = slices.Clone(r.Units)
			}
			units[j].Verdict = withFault(units[j].Verdict, faults, key)
		}
		if units != nil {
			changed := *r
			changed.Units = units
			result.Resources[i] = &changed
		}
	}
	return &result
}

// withFault returns a device's verdict, with its fault if it has one of these.
func withFault(verdict health.Verdict, faults map[inventory.Key]health.Fault, key inventory.Key) health.Verdict {
	fault, ok := faults[key]
	if !ok {
		return verdict
	}
	return health.Verdict{Faults: append(slices.Clone(verdict.Faults), fault)}
}
