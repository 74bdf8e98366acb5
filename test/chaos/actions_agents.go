package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/accelmux/accelmux/core/status"
)

// onDuty is the active agent; it is waited for.
func (w *world) onDuty(ctx context.Context) (p *process, err error) {
	err = w.await(ctx, oneAgent, "no agent is active", func() bool {
		p, _ = w.active(ctx)
		return p != nil
	})
	return p, err
}

func (w *world) killAgent(ctx context.Context, arg int) error {
	p, err := w.onDuty(ctx)
	if err != nil {
		return err
	}
	return w.killThat(ctx, p, arg%2 == 0)
}

// killThat kills an agent, unless it is dead, and starts another one, in the same run directory or not.
func (w *world) killThat(ctx context.Context, p *process, keep bool) error {
	w.watch.spareAll()
	if w.m.diskFull || w.m.unsaved {
		w.forget()
	}
	if err := w.end(ctx, p, syscall.SIGKILL, keep); err != nil {
		return err
	}
	if keep {
		return w.startAgent(p.runDir)
	}
	return w.startAgent(w.runDir())
}

// forget is for the agents' state that was lost.
func (w *world) forget() {
	w.m.forget()
	w.forgetBook()
	w.m.unsaved = false
	w.watch.mendingAll()
}

func (w *world) stopAgent(ctx context.Context, _ int) error {
	p, err := w.onDuty(ctx)
	if err != nil {
		return err
	}
	if w.m.diskFull {
		w.forget()
	}
	w.m.unsaved = false
	w.watch.spareAll()
	if err := w.end(ctx, p, syscall.SIGTERM, false); err != nil {
		return err
	}
	return w.startAgent(w.runDir())
}

func (w *world) freezeAgent(ctx context.Context, arg int) error {
	p, err := w.onDuty(ctx)
	if err != nil {
		return err
	}
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	pause(ctx, time.Duration(arg%200)*time.Millisecond)
	return p.signal(syscall.SIGCONT)
}

// takeOver has a newer agent take over from the active one, which is told to stop, or killed
// for an odd argument.
func (w *world) takeOver(ctx context.Context, arg int) error {
	active, newer, err := w.startStandby(ctx)
	if err != nil {
		return err
	}
	with := syscall.SIGTERM
	if arg%2 == 1 {
		with = syscall.SIGKILL
		w.watch.spareAll()
	}
	if err := w.end(ctx, active, with, false); err != nil {
		return err
	}
	return w.await(ctx, oneAgent, "the newer agent does not take over", func() bool {
		report, err := status.NewClient(newer.runDir).Report(ctx)
		return err == nil && report.Role == status.RoleActive
	})
}

// startStandby starts a newer agent and waits until it could take over from the active one.
func (w *world) startStandby(ctx context.Context) (active, newer *process, err error) {
	// A newer agent that cannot run what the older one has is not ready.
	if w.anyDown() || w.m.diskFull || w.m.broken || w.m.epsilon.wild {
		return nil, nil, errSkip
	}
	if err := w.calm(ctx); err != nil {
		return nil, nil, err
	}
	if !w.kubelet.Gapless() {
		w.watch.spareAll()
	}
	if active, err = w.onDuty(ctx); err != nil {
		return nil, nil, err
	}
	if err := w.startAgent(w.runDir()); err != nil {
		return nil, nil, err
	}
	newer = w.agents[len(w.agents)-1]
	return active, newer, w.await(ctx, oneAgent, "the newer agent is not ready to take over", func() bool {
		report, err := status.NewClient(newer.runDir).Report(ctx)
		return err == nil && report.Role == status.RoleStandby && len(report.NotReady) == 0
	})
}

// endStandby starts a newer agent and ends it again before it takes over.
func (w *world) endStandby(ctx context.Context, arg int) error {
	_, newer, err := w.startStandby(ctx)
	if err != nil {
		return err
	}
	if arg%2 == 0 {
		return w.end(ctx, newer, syscall.SIGTERM, false)
	}
	return w.end(ctx, newer, syscall.SIGKILL, false)
}

func (w *world) secondAgent(ctx context.Context, _ int) error {
	if w.rushed {
		return errSkip
	}
	if _, err := w.onDuty(ctx); err != nil {
		return err
	}
	p, err := w.start(w.runDir(), false)
	if err != nil {
		return err
	}
	return w.refused(ctx, p, "a second agent without --take-over")
}

func (w *world) reboot(ctx context.Context, arg int) error {
	w.watch.spareAll()
	w.watch.mendingAll()
	if err := w.kubelet.Kill(); err != nil {
		return err
	}
	if err := w.endAll(ctx); err != nil {
		return err
	}
	for _, pod := range w.pods {
		w.kubelet.Free(pod)
	}
	w.pods = nil
	w.forgetBook() // of containers nothing outlives a boot
	clear(w.calls.users)
	if arg/2%2 == 0 {
		for _, p := range w.claims.living() {
			w.finishClaim(p.name)
		}
	}
	for _, b := range w.m.all() {
		if !b.changes() {
			continue
		}
		for _, d := range b.devices {
			if clear(d.faults); d.entry.fault == byReboot {
				d.entry.fault = ""
			}
			d.hazy = false
		}
		if err := w.writeScenario(b); err != nil {
			return err
		}
	}
	// Of a machine's directories for CDI specs one is lost at a boot, the other not.
	if arg%2 == 0 && !w.m.readOnly {
		if err := os.RemoveAll(w.path("disk", "cdi")); err != nil {
			return err
		}
		w.m.foreign = ""
	}
	w.m.kubelet = true
	if err := errors.Join(w.boot(), w.unmute(), w.kubelet.Start()); err != nil {
		return err
	}
	if err := w.startAgent(w.runDir()); err != nil {
		return err
	}
	return w.startPodsAgain(ctx)
}

// endAll kills every agent.
func (w *world) endAll(ctx context.Context) error {
	for len(w.agents) > 0 {
		if err := w.end(ctx, w.agents[0], syscall.SIGKILL, false); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) damageState(ctx context.Context, arg int) error {
	return w.spoilState(ctx, arg, func(text []byte) []byte {
		switch arg / 4 % 3 {
		case 0:
			return text[:len(text)/2]
		case 1:
			return nil
		}
		return []byte(fmt.Sprintf("%x", arg))
	})
}

// renewState has a state file be of a version of which this agent knows nothing, as when
// an older one is installed again.
func (w *world) renewState(ctx context.Context, arg int) error {
	return w.spoilState(ctx, arg, func(text []byte) []byte { return bytes.Replace(text, []byte("/1 "), []byte("/2 "), 1) })
}

// spoilState has something be wrong with a state file while no agent runs.
func (w *world) spoilState(ctx context.Context, arg int, spoil func(text []byte) []byte) error {
	name, _ := pick([]string{"health", "usage", "profile"}, arg)
	if (w.m.broken || w.m.away) && name == "profile" || w.m.diskFull {
		return errSkip
	}
	w.watch.spareAll()
	if err := w.endAll(ctx); err != nil {
		return err
	}
	path := filepath.Join(w.path("disk", "state"), name)
	text, err := os.ReadFile(path)
	if err != nil {
		return w.startAgent(w.runDir()) // there was nothing to save yet
	}
	if name == "health" || w.m.unsaved {
		w.forget()
	}
	if name == "usage" {
		w.forgetBook()
	}
	if err := os.WriteFile(path, spoil(text), 0o600); err != nil {
		return err
	}
	return w.startAgent(w.runDir())
}
