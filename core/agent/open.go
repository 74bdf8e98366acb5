package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/condition"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/conflict"
	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/core/dra"
	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/kubeletdir"
	"github.com/accelmux/accelmux/core/lifecycle"
	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/podresources"
	"github.com/accelmux/accelmux/core/profile"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/supervisor"
)

// makeDir makes a directory of the agent, and takes from other users the right to write to it, which
// would be one to replace sockets and records: kubelet makes an emptyDir with mode 0777. A sticky
// directory, such as /tmp, stays as it is.
func makeDir(path string, log *slog.Logger) error {
	// Backends with users of their own have directories in it.
	if err := os.MkdirAll(path, 0o711); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode()&fs.ModeSticky != 0 || info.Mode()&0o022 == 0 {
		return err
	}
	if err := os.Chmod(path, info.Mode()&^0o022); err != nil {
		log.Warn("other users may write to a directory of the agent: take that right from them", "dir", path, "error", err)
	}
	return nil
}

// openCluster makes what needs the API server, if there is one. It does not
// contact it.
func (a *Agent) openCluster() {
	if a.opts.Cluster == nil {
		return
	}
	a.events = events.New(events.Options{
		Client: a.opts.Cluster, Node: a.opts.NodeName, Log: a.log, Timing: a.opts.Timing.Events,
	})
	a.node = profile.NewWatcher(profile.WatcherOptions{
		Nodes: a.opts.Cluster.NodeMetadata(a.opts.NodeName), Node: a.opts.NodeName, Memory: a.memory, Labels: a.supervisor.SetLabels, Cordoned: a.poke,
		Log: a.log, Timing: a.opts.Timing.Selection,
	})
	a.supervisor.SetLabels(a.node.Labels())
	if a.opts.NodeCondition {
		a.condition = condition.New(condition.Options{
			Client: a.opts.Cluster, Node: a.opts.NodeName, UID: a.node.UID, Verdict: a.verdict,
			Successor: func() bool { return a.claim.Standby() != nil }, Log: a.log, Timing: a.opts.Timing.Condition,
		})
	}
}

// checkSettings checks a configuration by the manifests of its backends, before anything of it applies.
func (a *Agent) checkSettings(file config.Event) error {
	return plug.Check{Dir: a.opts.BackendDir}.Run(context.Background(), a.opts.ConfigPath, file.Data).Errors.Err()
}

// openSwitch chooses the first plan.
func (a *Agent) openSwitch(loaded profile.Loaded) (err error) {
	options := profile.SwitchOptions{
		Path: a.opts.ConfigPath, Name: a.opts.Profile, Node: a.opts.NodeName, Memory: a.memory, Check: a.checkSettings, Manifests: a.manifests, Limit: a.opts.Timing.SwitchLimit,
		Statuses: a.supervisor.Status, Wake: a.poke, Host: a.opts.host(), Events: a.events, Log: a.log,
		Apply: func(specs []supervisor.Spec, policies map[string]inventory.Policy) {
			a.inventory.SetPolicies(policies)
			a.supervisor.Apply(specs)
		},
	}
	if a.opts.byLabels() {
		options.Labels = a.node
	}
	if a.plans, err = profile.NewSwitch(options, loaded); err != nil {
		return err
	}
	a.inventory.SetPolicies(a.plans.Policies()) // before claims are restored, which are checked by them
	return nil
}

// openState opens what only the active agent may touch: the parts that write to
// the state directory and to the CDI directory.
func (a *Agent) openState() error {
	bootID, err := health.BootID(a.opts.HostPaths.Procfs)
	if err != nil {
		return err
	}
	if _, err := checkpoint.Sweep(a.opts.StateDir, ""); err != nil {
		a.log.Warn("temporary files of an earlier run not removed", "error", err)
	}
	if a.health, err = health.Open(health.Options{
		Path: filepath.Join(a.opts.StateDir, "health"), BootID: bootID, Now: time.Now, Log: a.log,
	}); err != nil {
		return fmt.Errorf("open the health state: %w", err)
	}
	checkpointPath := filepath.Join(a.opts.KubeletDir, "device-plugins", "kubelet_internal_checkpoint")
	a.known = podresources.Resources(checkpointPath)
	a.pods = podresources.New(podresources.Options{
		Socket: kubeletdir.Socket(a.opts.KubeletRootDir), Checkpoint: checkpointPath, Rewrite: func() { a.plugin.Repeat() },
		Interval: a.opts.Timing.UsagePoll, Timing: a.opts.Timing.Usage, Log: a.log,
	})
	if a.book, err = holders.Open(holders.Options{
		Path: filepath.Join(a.opts.StateDir, "usage"), BootID: bootID, Kubelet: a.pods,
		Resolve:       a.resolve,
		Owns:          func(name string) bool { return a.plans.InForce().Mapper.Owns(name) },
		ResetAfterUse: func(key inventory.Key) bool { return a.round.Load().ResetsAfterUse(key) },
		Timing:        holders.Timing{RetryMin: a.opts.Timing.Usage.RetryMin, RetryMax: a.opts.Timing.Usage.RetryMax},
		Log:           a.log,
	}); err != nil {
		return fmt.Errorf("open the book of holders: %w", err)
	}
	a.earlier = round.OpenEarlier(filepath.Join(a.opts.StateDir, "devices"), bootID, a.log)
	a.inventory.Restore(a.earlier.Backends())
	if a.cdi, err = cdi.Open(cdi.Options{Dir: a.opts.CDIDir, Files: a.files, Adopted: a.book.Suspect, OnHost: a.inventory.OnHost, Log: a.log, Timing: a.opts.Timing.CDI}); err != nil {
		return fmt.Errorf("open the CDI directory: %w", err)
	}
	err = a.openKubelet()
	a.openClaims(bootID)
	if err := errors.Join(err, a.ownSpecs(a.plans.InForce())); err != nil {
		return errors.Join(err, a.cdi.Close(nil))
	}
	// Containers may hold devices of backends that this configuration does not have: their
	// definitions stay until the containers are gone.
	held := map[string]bool{}
	for key := range a.book.Allocations() {
		held[key.Backend] = true
	}
	_ = a.cdi.Own(slices.Collect(maps.Keys(held))) // another agent that has some keeps them
	a.conflicts = a.newConflicts()
	a.active.Store(true)
	return nil
}

// openKubelet makes the frontend for kubelet, and what it calls.
func (a *Agent) openKubelet() (err error) {
	a.lifecycle = lifecycle.New(lifecycle.Options{
		Book: a.book, Backends: a.supervisor, Definitions: a.cdi, Health: a.health,
		Round: a.round.Load, Host: a.opts.host(), Pods: a.opts.Pods, NodeName: a.opts.NodeName,
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
		RegistryDir: filepath.Join(a.opts.KubeletRootDir, "plugins_registry"),
		Lifecycle:   a.lifecycle, Answered: a.answered, Chosen: a.chosen, Trouble: a.kubeletTrouble,
		OnHost: a.inventory.OnHost, Files: a.files, Log: a.log, Timing: a.opts.Timing.Plugin,
	}); err != nil {
		return fmt.Errorf("open the device plugin: %w", err)
	}
	return nil
}

// openClaims makes the frontend for dynamic resource allocation, and restores the definitions of claims.
func (a *Agent) openClaims(bootID string) {
	options := dra.Options{
		NodeName: a.opts.NodeName, BootID: bootID, KubeletRootDir: a.opts.KubeletRootDir, CDIDir: a.opts.CDIDir,
		Lifecycle: a.lifecycle, Record: a.book.Claims(), Answered: a.claimAnswered, Log: a.log,
	}
	if a.opts.Cluster != nil {
		options.Client = a.opts.Cluster.Clientset()
	}
	a.claims = dra.NewReconciler(dra.ReconcilerOptions{
		Record: a.book.Claims(), Lifecycle: a.lifecycle, Client: options.Client, Listed: a.pods.ListedCDI, BootID: bootID,
		KubeletRootDir: a.opts.KubeletRootDir, CDIDir: a.opts.CDIDir, Interval: a.opts.Timing.Claims, Log: a.log,
	})
	options.Ended, options.Unused, options.End = a.claims.Ended, a.claims.Unused, a.claims.End
	a.dra = dra.NewFrontend(options)
	a.claims.Restore()
}

// defines reports whether the definitions of a device must stay: it is held, or a claim has admin
// access to it.
func (a *Agent) defines(device inventory.Key) bool {
	return a.book.Held(device) || a.book.Claims().Has(device)
}

// resolve finds the device of a unit that kubelet lists.
func (a *Agent) resolve(name, unitID string) (inventory.Key, bool) {
	id, _, _ := deviceplugin.SplitUnitID(unitID)
	device := a.round.Load().Assigned(name, id)
	if device == nil {
		return inventory.Key{}, false
	}
	return device.Key, true
}

// newConflicts makes what finds conflicting device plugins.
func (a *Agent) newConflicts() *conflict.Detector {
	return conflict.New(conflict.Options{
		Advertised:  func() conflict.Devices { return a.plugin.Advertised() },
		Allocatable: func(ctx context.Context) (conflict.Devices, error) { return a.pods.Allocatable(ctx) },
		Found:       func(c conflict.Conflict) { a.events.Record(events.ResourceContested, "%s", c.Message) },
		Register:    a.plugin.Renew, Sockets: a.plugin.OtherSockets, Log: a.log, Timing: a.opts.Timing.Conflict,
	})
}
