package round

import (
	"os"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/hostfs"
	"github.com/accelmux/accelmux/core/inventory"
)

// Intervals of checks for device nodes and files: of all, and while one is missing.
const (
	nodesInterval        = 30 * time.Second
	missingNodesInterval = 2 * time.Second
)

// Nodes finds the device nodes, the mounts and hook programs that are missing on the machine. A device
// gets into the inventory with the files that it has, and stays there without them. Its methods must be called from one
// goroutine.
type Nodes struct {
	// Host gives access to the host's files.
	Host inventory.Host
	// absent has the checked paths, and whether they are missing. All are checked again at
	// nextCheck.
	absent    map[string]bool
	nextCheck time.Time
	// view is that of the latest check of all.
	view *hostfs.View
}

// Missing returns the devices with a missing device node or file, each with its path, and
// when to call Missing next. A runtime makes nodes with numbers, but for devices that are injected plainly.
func (n *Nodes) Missing(snapshot *inventory.Snapshot, plain map[inventory.Key]bool, now time.Time) (map[inventory.Key]string, time.Time) {
	if !now.Before(n.nextCheck) {
		n.absent, n.nextCheck, n.view = map[string]bool{}, now.Add(nodesInterval), n.Host.View()
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

// firstMissing returns the first device node or file of the edits that is missing, "" if there is
// none.
func (n *Nodes) firstMissing(edits inventory.Edits, plain bool) string {
	isAbsent := func(path string, missing func(string) bool) bool {
		absent, known := n.absent[path]
		if !known {
			absent = missing(path)
			n.absent[path] = absent
		}
		return absent
	}
	for _, node := range edits.DeviceNodes {
		missing := n.Host.Missing // a link may lead to where the agent does not see it
		if !strings.HasPrefix(node.HostPath, "/dev/") {
			missing = n.view.Missing
		}
		if (node.Major == 0 || plain) && isAbsent(node.HostPath, missing) {
			return node.HostPath
		}
	}
	for _, path := range n.Host.Files(edits) {
		if isAbsent(path, n.view.Missing) {
			return path
		}
	}
	return ""
}
