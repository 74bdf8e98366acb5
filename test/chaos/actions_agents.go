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
	w.watch.spareAll()
	if w.m.diskFull || w.m.unsaved {
		w.forget()
	}
	keep := arg%2 == 0 && len(w.agents) == 1
	if err := w.end(ctx, p, syscall.SIGKILL, keep); err != nil || len(w.agents) > 0 {
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
	w.m.unsaved = false
	w.watch.mendingAll()
}

// inTime is less than any time that an agent gives a backend for something at its start, or
// its successor for all of them. One that does not come up in time at the agent that stood
// by, of a machine that is slow or stands still, is left behind.
const inTime = 3 * time.Second

func (w *world) stopAgent(ctx context.Context, _ int) error {
	p, err := w.onDuty(ctx)
	if err != nil {
		return err
	}
	if w.m.diskFull {
		w.forget()
	}
	w.m.unsaved = false
	// With another agent there is no gap, unless its backends do not work, or do not come up
	// in time.
	if len(w.agents) == 1 || w.rushed || w.anyDown() || w.m.diskFull || !w.kubelet.Gapless() {
		w.watch.spareAll()
	}
	began := time.Now()
	err = w.end(ctx, p, syscall.SIGTERM, false)
	if time.Since(began) > inTime {
		w.watch.excuseAll()
	}
	if err != nil || len(w.agents) > 0 {
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

// maxAgents bounds the agents of the node.
const maxAgents = 3

func (w *world) takeOver(ctx context.Context, _ int) error {
	// A newer agent that cannot run what the older one has rightly waits.
	if len(w.agents) == maxAgents || w.anyDown() || w.m.diskFull || w.m.broken {
		return errSkip
	}
	if w.rushed {
		if err := w.settle(ctx); err != nil {
			return err
		}
	}
	if !w.kubelet.Gapless() {
		w.watch.spareAll()
	}
	if err := w.startAgent(w.runDir()); err != nil {
		return err
	}
	newest := w.agents[len(w.agents)-1]
	return w.await(ctx, oneAgent, "the newer agent does not take over", func() bool {
		report, err := status.NewClient(newest.runDir).Report(ctx)
		return err == nil && report.Role == status.RoleActive
	})
}

func (w *world) endStandby(ctx context.Context, arg int) error {
	if w.rushed {
		return errSkip
	}
	if len(w.agents) == 1 {
		if err := w.takeOver(ctx, 0); err != nil {
			return err
		}
		if err := w.settle(ctx); err != nil {
			return err
		}
	}
	active, err := w.onDuty(ctx)
	if err != nil {
		return err
	}
	var standby []*process
	for _, p := range w.agents {
		if p != active {
			standby = append(standby, p)
		}
	}
	p, ok := pick(standby, arg/2)
	if !ok {
		return errSkip
	}
	if arg%2 == 0 {
		return w.end(ctx, p, syscall.SIGTERM, false)
	}
	return w.end(ctx, p, syscall.SIGKILL, false)
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
	return w.refused(ctx, p, "a second agent that does not take turns")
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
	return w.startAgent(w.runDir())
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
	name, _ := pick([]string{"health", "usage", "configuration", "selection"}, arg)
	if w.m.broken && name == "configuration" || w.m.away && name == "selection" || w.m.diskFull {
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
	if err := os.WriteFile(path, spoil(text), 0o600); err != nil {
		return err
	}
	return w.startAgent(w.runDir())
}
