package round

import (
	"os"
	"time"

	"github.com/accelmux/accelmux/core/hostfs"
	"github.com/accelmux/accelmux/core/inventory"
)

// Intervals of checks for device nodes: of all, and while one is missing.
const (
	nodesInterval        = 30 * time.Second
	missingNodesInterval = 2 * time.Second
)

// Nodes finds the device nodes that are missing on the machine. Only paths below /dev are
// checked: a device with another path that is missing is not in the inventory. Its methods must
// be called from one goroutine.
type Nodes struct {
	// Host gives access to the host's device nodes.
	Host hostfs.Host
	// absent has the checked paths, and whether they are missing. All are checked again at
	// nextCheck.
	absent    map[string]bool
	nextCheck time.Time
}

// Missing returns the devices with a missing device node, each with the node's path, and
// when to call Missing next. A runtime makes nodes with numbers, but for devices that are injected plainly.
func (n *Nodes) Missing(snapshot *inventory.Snapshot, plain map[inventory.Key]bool, now time.Time) (map[inventory.Key]string, time.Time) {
	if !now.Before(n.nextCheck) {
		n.absent, n.nextCheck = map[string]bool{}, now.Add(nodesInterval)
	}
	missing := map[inventory.Key]string{}
	if _, err := os.Stat(n.Host.Devfs); err != nil {
		return missing, n.nextCheck // there is nothing to compare with
	}
	for _, backend := range snapshot.Backends {
		for _, d := range backend.Devices {
			if path := n.firstMissing(d.Edits, plain[d.Key]); path != "" {
				missing[d.Key] = path
				if soon := now.Add(missingNodesInterval); soon.Before(n.nextCheck) {
					n.nextCheck = soon
				}
			}
		}
	}
	return missing, n.nextCheck
}

// firstMissing returns the first device node of the edits that is missing, "" if there is
// none.
func (n *Nodes) firstMissing(edits inventory.Edits, plain bool) string {
	for _, node := range edits.DeviceNodes {
		if node.Major != 0 && !plain {
			continue
		}
		absent, known := n.absent[node.HostPath]
		if !known {
			absent = n.Host.Missing(node.HostPath)
			n.absent[node.HostPath] = absent
		}
		if absent {
			return node.HostPath
		}
	}
	return ""
}
