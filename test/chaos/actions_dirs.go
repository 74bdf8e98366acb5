package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/accelmux/accelmux/core/status"
)

// What is wrong with a directory here is mended within the same step: an agent that
// starts meanwhile rightly cannot do much, and what it can is known only in the end.

// until mends what do has made wrong, whatever became of that.
func until(mend func() error, do func() error) error {
	err := do()
	return errors.Join(err, mend())
}

// lockState has the state directory alone be read-only while something happens of which
// the agent has to take note. Who runs goes on, and what is known is written later.
func (w *world) lockState(ctx context.Context, arg int) error {
	if !w.mounts || w.m.readOnly || w.m.diskFull || w.rushed {
		return errSkip
	}
	state := w.path("disk", "state")
	if err := bindReadOnly(state); err != nil {
		return err
	}
	w.m.unsaved = true
	return until(func() error { return unmountDisk(state) }, func() error {
		do, _ := pick([]func(*world, context.Context, int) error{
			(*world).fault, (*world).allocate, (*world).free, (*world).clear, (*world).killBackend, (*world).restartKubelet,
		}, arg)
		if err := do(w, ctx, arg/8); err != nil && !errors.Is(err, errSkip) {
			return err
		}
		return w.settle(ctx)
	})
}

// longLock is longer than the agent under test (cmd/accelmux/intervals_chaos.go) waits
// before it removes sockets of a dead process that it could not remove at its start.
const longLock = 3500 * time.Millisecond

// lockPlugins has kubelet's directory of plugins be read-only while the agent is killed
// and another one starts: it serves what it can, and the rest as soon as it can.
func (w *world) lockPlugins(ctx context.Context, arg int) error {
	if !w.mounts || !w.m.kubelet {
		return errSkip
	}
	dir := w.kubelet.PluginDir()
	// Kubelet may have been killed just now, and its directory deleted before.
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := bindReadOnly(dir); err != nil {
		return err
	}
	return until(func() error { return unmountDisk(dir) }, func() error {
		if err := w.killAgent(ctx, arg); err != nil {
			return err
		}
		if _, err := w.onDuty(ctx); err != nil {
			return err
		}
		lasts := time.Duration(arg%300) * time.Millisecond
		if arg/2%4 == 0 {
			lasts += longLock
		}
		pause(ctx, lasts)
		return nil
	})
}

// fillRest has the disk of kubelet's and the run directories be full while a backend dies:
// it can be started again only afterwards, and nobody else notices.
func (w *world) fillRest(ctx context.Context, arg int) error {
	if !w.mounts || w.rushed {
		return errSkip
	}
	b, pid, ok := w.running(ctx, arg)
	if !ok {
		return errSkip
	}
	filler := w.path("rest", "filler")
	return until(func() error { return os.RemoveAll(filler) }, func() error {
		if err := fillWithFiles(filler); err != nil {
			return err
		}
		if err := w.kill(ctx, b, pid); err != nil {
			return err
		}
		pause(ctx, time.Duration(arg%300)*time.Millisecond)
		return nil
	})
}

// fillWithFiles makes empty files in a new directory until there is no room for another:
// sockets are empty files, too.
func fillWithFiles(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for i := 0; ; i++ {
		file, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		if errors.Is(err, syscall.ENOSPC) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
}

// loseKubeletDir has an agent start while there is no kubelet, nor its directory.
func (w *world) loseKubeletDir(ctx context.Context, arg int) error {
	if w.kubelet.Forgetful() && len(w.claims.all()) > 0 && (w.m.away || w.m.diskFull || w.m.readOnly || w.m.unsaved) {
		return errSkip // the agent could not find out that the claims are gone
	}
	w.watch.spareAll()
	if w.kubelet.Forgetful() { // or it would give a device to two pods
		for len(w.pods) > 0 {
			w.endPod(w.pods[0])
		}
	}
	w.endMortal()
	w.m.kubelet = false
	if err := errors.Join(w.unmute(), w.kubelet.Kill()); err != nil {
		return err
	}
	if w.kubelet.Forgetful() { // it knows no claims any more, and never unprepares them
		for _, p := range w.claims.all() {
			if err := w.abandonClaim(ctx, p.claim); err != nil {
				return err
			}
		}
	}
	if w.m.diskFull || w.m.unsaved {
		w.forget()
	}
	if err := w.endAll(ctx); err != nil {
		return err
	}
	if err := w.removeAll(ctx, w.kubeletDir()); err != nil {
		return err
	}
	if err := w.startAgent(w.runDir()); err != nil {
		return err
	}
	if _, err := w.onDuty(ctx); err != nil {
		return err
	}
	pause(ctx, time.Duration(arg%300)*time.Millisecond)
	w.m.kubelet = true
	return errors.Join(os.MkdirAll(w.kubeletDir(), 0o755), w.kubelet.Start())
}

// strayAgent starts an agent by mistake that has a state directory of its own, so that
// neither knows of the other. With the same CDI directory it is refused. With one of its
// own, too, it serves the same devices until it is told to end. While the API server is away
// it does neither: it does not know its profile, and waits.
func (w *world) strayAgent(ctx context.Context, arg int) error {
	own := arg%2 == 1
	if !w.m.kubelet || w.m.diskFull || w.m.readOnly || w.m.away || own && (w.m.broken || w.anyDown()) {
		return errSkip
	}
	if own {
		for len(w.pods) > 0 { // or the two might think differently of who holds what
			w.endPod(w.pods[0])
		}
		for _, p := range w.claims.living() {
			w.finishClaim(p.name)
		}
	}
	if err := w.settle(ctx); err != nil {
		return err
	}
	d := directories{run: w.runDir(), state: w.path(fmt.Sprintf("state-%d", w.next())), cdi: w.path("disk", "cdi")}
	if own {
		d.cdi = d.state + "-cdi"
	}
	remove := func() error {
		return errors.Join(os.RemoveAll(d.run), os.RemoveAll(d.state), os.RemoveAll(d.state+"-cdi"))
	}
	return until(remove, func() error {
		if own {
			return w.conflict(ctx, d)
		}
		p, err := w.startIn(d, false)
		if err != nil {
			return err
		}
		return w.refused(ctx, p, "a second agent that writes to the same CDI directory")
	})
}

// alike reports whether an agent that begins now says the same of every device as one that
// has been there for long, to a kubelet that then misses nothing.
func (w *world) alike() bool {
	for _, b := range w.m.configured() {
		for _, d := range b.devices {
			remembered := maps.Clone(d.faults)
			delete(remembered, d.entry.fault)
			if d.hazy || len(remembered) > 0 {
				return false
			}
		}
	}
	return w.m.foreign == "" && w.kubelet.Gapless()
}

// conflict has an agent with directories of its own serve the node, too, and ends it. If they
// say the same nobody notices. If not, kubelet goes by what it was told last, also when the
// other is gone, until the agent sees that (core/conflict, which takes longer than a step), or
// kubelet restarts.
func (w *world) conflict(ctx context.Context, d directories) error {
	alike := w.alike()
	if !alike {
		w.watch.spareAll()
		w.watch.mendingAll()
	}
	p, err := w.startIn(d, false)
	if err != nil {
		return err
	}
	err = w.await(ctx, oneAgent, "an agent with directories of its own does not serve", func() bool {
		report, err := status.NewClient(p.runDir).Report(ctx)
		// The driver has another agent, and that is right.
		missing := slices.DeleteFunc(report.NotReady, func(why string) bool { return strings.Contains(why, claimDriver) })
		return !p.alive() || err == nil && report.Role == status.RoleActive && len(missing) == 0
	})
	if err == nil && !p.alive() {
		err = &violation{oneAgent, "an agent with directories of its own ends"}
	}
	if err = errors.Join(err, w.end(ctx, p, syscall.SIGTERM, false)); err != nil || alike {
		return err
	}
	return w.restartKubelet(ctx, 0)
}

// refused waits until an agent that must not run has ended with an error.
func (w *world) refused(ctx context.Context, p *process, which string) error {
	err := w.await(ctx, oneAgent, which+" is not refused", func() bool { return !p.alive() })
	if err != nil {
		return errors.Join(err, p.signal(syscall.SIGKILL))
	}
	if p.state.Success() {
		return &violation{oneAgent, which + " ends without an error"}
	}
	return os.RemoveAll(p.runDir)
}
