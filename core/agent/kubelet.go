package agent

import (
	"fmt"
	"path/filepath"

	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/lifecycle"
)

// openKubelet makes the frontend for kubelet, and what it calls.
func (a *Agent) openKubelet() (err error) {
	a.lifecycle = lifecycle.New(lifecycle.Options{
		Book: a.book, Backends: a.supervisor, Definitions: a.cdi, Health: a.health,
		Round: a.view.Load, Nodes: a.opts.HostPaths.nodes(), Pods: a.opts.Pods, NodeName: a.opts.NodeName,
		Changed: a.poke,
		Released: func(device inventory.Key, err error) {
			a.tally.Released(device.Backend, err)
			a.opts.Released(device.Backend, device.ID, err)
		},
		Reset: a.tally.Reset, Log: a.log,
		ReleaseBackoff: a.opts.Timing.ReleaseBackoff, ResetBackoff: a.opts.Timing.ResetBackoff,
	})
	if a.plugin, err = deviceplugin.New(deviceplugin.Options{
		Dir:         filepath.Join(a.opts.KubeletDir, "device-plugins"),
		RegistryDir: filepath.Join(a.opts.KubeletDir, "plugins_registry"),
		Lifecycle:   a.lifecycle, Answered: a.answered, Chosen: a.chosen, Trouble: a.kubeletTrouble,
		Nodes: a.opts.HostPaths.nodes(), Files: a.files, Log: a.log, Timing: a.opts.Timing.Plugin,
	}); err != nil {
		return fmt.Errorf("open the device plugin: %w", err)
	}
	return nil
}

// resolve finds the device of a unit that kubelet lists.
func (a *Agent) resolve(name, unitID string) (inventory.Key, bool) {
	id, _, _ := deviceplugin.SplitUnitID(unitID)
	device := a.view.Load().Assigned(name, id)
	if device == nil {
		return inventory.Key{}, false
	}
	return device.Key, true
}
