package doctor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/round"
)

// nodeClasses are the classes of devices below a PCI function whose nodes containers get.
var nodeClasses = []string{"drm", "accel", "infiniband_verbs"}

// deviceNodes stops devices whose nodes are missing: those that the agent reports, and without an
// agent those that the kernel names in sysfs.
func deviceNodes(w *walk) Finding {
	named, unnamed := 0, ""
	for _, d := range w.devices {
		if d.listed != nil {
			for _, f := range d.listed.Faults {
				if f.Code == round.CodeNoNode {
					w.stop(d, f.Message, "check that the driver and udev make the node, and that the agent has the node's /dev")
				}
			}
			named++
			continue
		}
		if d.onBus.Driver == "" {
			continue
		}
		nodes, err := w.nodesOf(d.onBus.Address)
		if err != nil {
			return Finding{State: NotChecked, Why: err.Error()}
		}
		if len(nodes) == 0 {
			unnamed = "the driver " + d.onBus.Driver + " names no nodes of " + d.onBus.Address + " in sysfs: only its backend can check them"
		}
		for _, node := range nodes {
			if _, err := os.Stat(node); errors.Is(err, fs.ErrNotExist) {
				w.stop(d, "the device node "+node+" does not exist", "check that udev runs and that /dev is a devtmpfs; in a pod, mount the node's /dev and name it with --devfs")
			} else if err != nil {
				return Finding{State: NotChecked, Why: err.Error()}
			}
			named++
		}
	}
	if unnamed != "" {
		return Finding{State: NotChecked, Why: unnamed}
	}
	if named == 0 {
		return Finding{State: OK, Why: "there are none to check"}
	}
	return Finding{State: OK}
}

// nodesOf returns the paths of the device nodes that the kernel names for a PCI function.
func (w *walk) nodesOf(address string) (nodes []string, err error) {
	function, err := filepath.EvalSymlinks(filepath.Join(w.Sysfs, "bus/pci/devices", address))
	if err != nil {
		return nil, err
	}
	for _, class := range nodeClasses {
		uevents, err := filepath.Glob(filepath.Join(function, class, "*", "uevent"))
		if err != nil {
			return nil, err
		}
		for _, uevent := range uevents {
			text, err := os.ReadFile(uevent) //nolint:gosec // below the root of sysfs
			if err != nil {
				return nil, err
			}
			for line := range strings.Lines(string(text)) {
				if name, ok := strings.CutPrefix(strings.TrimSpace(line), "DEVNAME="); ok {
					nodes = append(nodes, filepath.Join(w.Devfs, name))
				}
			}
		}
	}
	return nodes, nil
}

// listed is a list of names for a finding; "" if there are none.
func listed(what string, names map[string]bool) string {
	var all []string
	for name := range names {
		all = append(all, name)
	}
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	return what + ": " + strings.Join(all, ", ")
}
