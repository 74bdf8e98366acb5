package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/status"
)

func (w *world) restartKubelet(context.Context, int) error {
	if !w.m.kubelet {
		return errSkip
	}
	w.watch.spareAll()
	w.endMortal()
	return w.kubelet.Restart()
}

func (w *world) stopKubelet(_ context.Context, arg int) error {
	if !w.m.kubelet {
		return errSkip
	}
	w.watch.spareAll()
	w.endMortal()
	w.m.kubelet = false
	if arg%2 == 0 {
		return w.kubelet.Kill()
	}
	return w.kubelet.Stop()
}

// endMortal ends the pods that would not outlive kubelet.
func (w *world) endMortal() {
	for _, pod := range w.kubelet.Mortal() {
		w.endPod(pod)
	}
}

func (w *world) startKubelet(context.Context, int) error {
	if w.m.kubelet {
		return errSkip
	}
	w.m.kubelet = true
	return errors.Join(w.unmute(), w.kubelet.Start())
}

func (w *world) deleteKubeletSocket(ctx context.Context, _ int) error {
	if !w.m.kubelet || w.rushed {
		return errSkip
	}
	// Who is connected stays so.
	if err := os.Remove(filepath.Join(w.kubelet.PluginDir(), "kubelet.sock")); err != nil {
		return err
	}
	if err := w.settle(ctx); err != nil {
		return err
	}
	return w.restartKubelet(ctx, 0)
}

func (w *world) deletePluginDir(ctx context.Context, _ int) error {
	if !w.m.kubelet {
		return errSkip
	}
	w.watch.spareAll()
	if w.kubelet.Forgetful() { // or it would give a device to two pods
		for len(w.pods) > 0 {
			w.endPod(w.pods[0])
		}
	}
	if err := w.removeAll(ctx, w.kubelet.PluginDir()); err != nil {
		return err
	}
	return w.restartKubelet(ctx, 0)
}

// removeAll deletes a directory, in which the agent may make something meanwhile.
func (w *world) removeAll(ctx context.Context, dir string) error {
	return w.await(ctx, leakedFile, dir+" cannot be deleted", func() bool { return os.RemoveAll(dir) == nil })
}

// configurable reports whether a change is in force at once: it waits for backends.
func (w *world) configurable() bool {
	return w.m.kubelet && !w.m.diskFull && !w.m.readOnly && !w.anyDown()
}

// configure writes the configuration as it is to be. Only from rest, and with kubelet
// there, it is certain which one is in force. others are resources that it is about, too.
func (w *world) configure(ctx context.Context, change func(), others ...string) error {
	if !w.configurable() {
		return errSkip
	}
	if err := w.calm(ctx); err != nil {
		return err
	}
	resource, _ := w.m.resourceOf(w.m.alpha)
	w.watch.spare(append(others, resource, deltaName)...)
	if _, err := w.onDuty(ctx); err != nil {
		return err
	}
	_, report := w.active(ctx)
	before := w.configuration()
	change()
	w.m.broken = false
	if err := w.writeConfig(); err != nil || w.configuration() == before {
		return err
	}
	// Perhaps kubelet hears of nothing new, and the next change must not come before the
	// agent has read this one.
	return w.await(ctx, advertised, "the new configuration is not in force", func() bool {
		_, now := w.active(ctx)
		return now.Role == status.RoleActive && !now.Config.AppliedAt.Equal(report.Config.AppliedAt)
	})
}

func (w *world) changeReplicas(ctx context.Context, arg int) error {
	return w.configure(ctx, func() { w.m.replicas = 1 + (w.m.replicas+arg%2)%3 })
}

func (w *world) changeUnits(ctx context.Context, arg int) error {
	if w.m.alpha.down() {
		return errSkip // the change waits for it
	}
	return w.configure(ctx, func() { w.m.units = 1 + (w.m.units+arg%(maxUnits-1))%maxUnits })
}

func (w *world) rename(ctx context.Context, _ int) error {
	return w.configure(ctx, func() {
		if w.m.name == gpuName {
			w.m.name = bigName
		} else {
			w.m.name = gpuName
		}
	})
}

// pin pins the program of backend delta in the configuration by its checksum, or lets it
// be any. One that is not configured is, then.
func (w *world) pin(ctx context.Context, _ int) error {
	if w.m.delta.down() {
		return errSkip // the change waits for it
	}
	before := 0
	change := func() {
		before = w.pid(ctx, w.m.delta) // not sooner: an agent that has just been killed says none
		w.m.extra, w.m.pinned = true, !w.m.extra || !w.m.pinned
	}
	if err := w.configure(ctx, change); err != nil || !w.m.hasDelta() {
		return err
	}
	// Its process is replaced a moment later. If the program were swapped before that, the
	// new process might be of the old one, which is right.
	return w.await(ctx, backendsRun, "backend delta is not started anew by its new configuration", func() bool {
		pid := w.pid(ctx, w.m.delta)
		return pid != 0 && pid != before
	})
}

func (w *world) toggleExtra(ctx context.Context, _ int) error {
	if w.m.delta.down() {
		return errSkip // the change waits for it
	}
	return w.configure(ctx, func() { w.m.extra = !w.m.extra })
}

func (w *world) breakConfig(ctx context.Context, arg int) error {
	if !w.m.kubelet || w.m.diskFull || w.m.unsaved {
		return errSkip
	}
	if err := w.calm(ctx); err != nil {
		return err
	}
	w.m.broken = true
	text, _ := pick([]string{"profiles: [", "", w.configuration() + "    unknown: 1\n", "\x00\xff"}, arg)
	return w.replace("node.yaml", text)
}

func (w *world) deleteCDI(ctx context.Context, _ int) error {
	// Nobody knows what was in it if its agent has just been started, and the backend
	// is down, or no longer has a device that a container has.
	if w.m.readOnly || w.m.diskFull || w.rushed && (w.anyDown() || w.m.anyUnplugged()) {
		return errSkip
	}
	// If the agent is just writing there, its devices rightly have no name for a moment.
	for _, b := range w.m.configured() {
		if resource, _ := w.m.resourceOf(b); b != w.m.gamma {
			w.watch.spare(resource)
		}
	}
	w.m.foreign = ""
	w.claims.excuse()
	if err := w.removeAll(ctx, w.path("disk", "cdi")); err != nil || !w.m.kubelet {
		return err
	}
	// Nothing may come in between, or the names are rightly not there: not of the
	// containers, nor of the devices.
	missing := ""
	err := w.await(ctx, namesResolve, "the CDI specs of a backend are not written again", func() bool {
		missing = w.unwritten()
		return missing == ""
	})
	if err != nil {
		return fmt.Errorf("%w (%s)", err, missing)
	}
	return nil
}

// unwritten is a backend that has a sound device and no CDI spec, or "".
func (w *world) unwritten() string {
	holds := w.holds()
	for _, b := range w.m.configured() {
		sound := slices.ContainsFunc(b.devices, func(d *device) bool { return w.m.deviceHealth(b, d, holds) == healthy })
		files, err := filepath.Glob(w.path("disk", "cdi", "accelmux-"+b.name+"-*.json"))
		if b != w.m.gamma && (b != w.m.iota || !w.m.claimed()) && sound && (err != nil || len(files) == 0) {
			return b.name
		}
	}
	return ""
}

func (w *world) foreignCDI(ctx context.Context, arg int) error {
	if w.m.readOnly || w.m.diskFull || w.m.foreign != "" || w.rushed {
		return errSkip
	}
	// It may have been deleted a moment ago.
	if err := os.MkdirAll(w.path("disk", "cdi"), 0o755); err != nil {
		return err
	}
	d, _ := pick(w.m.alpha.devices[:w.m.units], arg)
	resource, _ := w.m.resourceOf(w.m.alpha)
	w.watch.spare(resource)
	w.m.foreign = d.id
	return os.WriteFile(w.path("disk", "cdi", "foreign.json"), fmt.Appendf(nil,
		`{"cdiVersion": "0.6.0", "kind": %q, "devices": [{"name": %q, "containerEdits": {"env": ["A=B"]}}]}`, foreignKind, d.id), 0o644)
}

// foreignKind is the kind of what a foreign CDI spec defines: that of alpha's devices.
const foreignKind = "alpha.accelmux.io/gpu"

func (w *world) lockCDI(context.Context, int) error {
	if !w.mounts || w.m.readOnly || w.m.diskFull || w.rushed {
		return errSkip
	}
	// It may have been deleted a moment ago.
	if err := os.MkdirAll(w.path("disk", "cdi"), 0o755); err != nil {
		return err
	}
	w.m.readOnly = true
	return bindReadOnly(w.path("disk", "cdi"))
}

func (w *world) fillDisk(context.Context, int) error {
	if !w.mounts || w.m.diskFull || w.m.readOnly || w.rushed {
		return errSkip
	}
	w.m.diskFull = true
	file, err := os.Create(w.path("disk", "filler"))
	if err != nil {
		return err
	}
	for chunk := make([]byte, 512); err == nil; {
		_, err = file.Write(chunk)
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = nil
	}
	return errors.Join(err, file.Close())
}

func (w *world) mendDisk(context.Context, int) error {
	switch {
	case w.m.readOnly:
		w.m.readOnly = false
		return unmountDisk(w.path("disk", "cdi"))
	case w.m.diskFull:
		w.m.diskFull, w.m.unsaved = false, true
		return os.Remove(w.path("disk", "filler"))
	case w.m.foreign != "":
		resource, _ := w.m.resourceOf(w.m.alpha)
		w.watch.spare(resource)
		w.m.foreign = ""
		return os.Remove(w.path("disk", "cdi", "foreign.json"))
	}
	return errSkip
}

// exhaustDescriptors lets the active agent open no more files for a while. That costs
// it at most the backend that dies meanwhile, and whoever wants to connect.
func (w *world) exhaustDescriptors(ctx context.Context, arg int) error {
	p, err := w.onDuty(ctx)
	if err != nil {
		return err
	}
	b, pid, ok := w.running(ctx, arg)
	if !ok || w.rushed {
		return errSkip
	}
	var before unix.Rlimit
	if err := unix.Prlimit(p.pid, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		return fmt.Errorf("read the agent's limit of open files: %w", err)
	}
	least := before
	least.Cur = uint64(descriptors(p.pid))
	if err := unix.Prlimit(p.pid, unix.RLIMIT_NOFILE, &least, nil); err != nil {
		return fmt.Errorf("limit the agent's open files: %w", err)
	}
	err = w.kill(ctx, b, pid)
	pause(ctx, 100*time.Millisecond)
	if back := unix.Prlimit(p.pid, unix.RLIMIT_NOFILE, &before, nil); back != nil {
		err = errors.Join(err, fmt.Errorf("give the agent its open files back: %w", back))
	}
	return err
}
