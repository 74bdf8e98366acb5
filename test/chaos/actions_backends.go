package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// running is the backend that an arg means, of those that may be hurt and run, and
// its process.
func (w *world) running(ctx context.Context, arg int) (*backend, int, bool) {
	return w.runningOf(ctx, arg, func(b *backend) bool { return b != w.m.gamma })
}

// scripted is running for those that have a scenario.
func (w *world) scripted(ctx context.Context, arg int) (*backend, int, bool) {
	return w.runningOf(ctx, arg, func(b *backend) bool { return b.scripted })
}

func (w *world) runningOf(ctx context.Context, arg int, is func(*backend) bool) (*backend, int, bool) {
	var up []*backend
	for _, b := range w.m.configured() {
		if is(b) && !b.down() {
			up = append(up, b)
		}
	}
	b, ok := pick(up, arg)
	if !ok {
		return nil, 0, false
	}
	if !b.holdover {
		resource, _ := w.m.resourceOf(b)
		w.watch.spare(resource)
	}
	pid := w.pid(ctx, b)
	return b, pid, pid > 0
}

func hurt(pid int, s syscall.Signal) error {
	if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal a backend: %w", err)
	}
	return nil
}

func (w *world) killBackend(ctx context.Context, arg int) error {
	b, pid, ok := w.running(ctx, arg)
	if !ok {
		return errSkip
	}
	return w.kill(ctx, b, pid)
}

// kill kills a backend and waits until it is gone, or it would pass for one that runs.
func (w *world) kill(ctx context.Context, b *backend, pid int) error {
	if err := hurt(pid, syscall.SIGKILL); err != nil {
		return err
	}
	w.killed[pid] = b
	return w.await(ctx, leakedProcess, "a backend does not die, or is not reaped", func() bool {
		_, alive := readTask(pid)
		return !alive
	})
}

func (w *world) stopBackend(ctx context.Context, arg int) error {
	_, pid, ok := w.running(ctx, arg)
	if !ok {
		return errSkip
	}
	return w.stop(ctx, pid)
}

// stop stops a backend and waits until it is, or it would pass for one that runs.
func (w *world) stop(ctx context.Context, pid int) error {
	if err := hurt(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	return w.await(ctx, leakedProcess, "a backend does not stop", func() bool {
		t, alive := readTask(pid)
		return !alive || t.State == "T" || t.State == "Z"
	})
}

func (w *world) freezeBackend(ctx context.Context, arg int) error {
	_, pid, ok := w.running(ctx, arg)
	if !ok {
		return errSkip
	}
	if err := w.stop(ctx, pid); err != nil {
		return err
	}
	pause(ctx, time.Duration(arg%200)*time.Millisecond)
	return hurt(pid, syscall.SIGCONT)
}

// act has a backend do something once, and waits until it has another process.
func (w *world) act(ctx context.Context, arg int, action string) error {
	b, pid, ok := w.scripted(ctx, arg)
	if !ok {
		return errSkip
	}
	return w.actOn(ctx, b, pid, action)
}

func (w *world) actOn(ctx context.Context, b *backend, pid int, action string) error {
	b.action = fmt.Sprintf(action, w.next())
	err := w.writeScenario(b)
	if err == nil {
		err = w.await(ctx, advertised, "backend "+b.name+" is not replaced", func() bool {
			now := w.pid(ctx, b)
			return now != 0 && now != pid
		})
	}
	b.action = ""
	return errors.Join(err, w.writeScenario(b))
}

func (w *world) hangBackend(ctx context.Context, arg int) error {
	return w.act(ctx, arg, "hang: {id: %d}")
}

func (w *world) crashBackend(ctx context.Context, arg int) error {
	return w.act(ctx, arg, "crash: {id: %d}")
}

func (w *world) garbage(ctx context.Context, arg int) error {
	switch arg / 8 % 4 {
	case 0:
		return w.act(ctx, arg, "garbage: {id: %d, kinds: [too-many-devices]}")
	case 1:
		return w.act(ctx, arg, "garbage: {id: %d, kinds: [oversize]}")
	}
	b, _, ok := w.scripted(ctx, arg)
	if !ok {
		return errSkip
	}
	b.litter = true
	b.action = fmt.Sprintf("garbage: {id: %d, for: 100ms}", w.next())
	return w.writeScenario(b)
}

func (w *world) crashLoop(ctx context.Context, arg int) error {
	b, _, ok := w.scripted(ctx, arg)
	if !ok {
		return errSkip
	}
	b.crash = true
	return w.writeScenario(b)
}

func (w *world) loseProgram(ctx context.Context, arg int) error {
	b, pid, ok := w.running(ctx, arg)
	if !ok {
		return errSkip
	}
	b.missing = true
	if err := os.Remove(w.program(b)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return w.kill(ctx, b, pid)
}

// swapProgram puts another file in the place of a backend's program: a copy, which the
// next process runs, or half of one, as by somebody who is still writing it, whereupon
// the backend dies.
func (w *world) swapProgram(ctx context.Context, arg int) error {
	b, pid, ok := w.runningOf(ctx, arg, (*backend).changes)
	if !ok {
		return errSkip
	}
	text, err := os.ReadFile(w.source(b))
	if err != nil {
		return err
	}
	if arg/8%2 == 0 {
		return w.place(b, func(path string) error { return os.WriteFile(path, text, 0o755) })
	}
	b.missing = true
	err = w.place(b, func(path string) error { return os.WriteFile(path, text[:len(text)/2], 0o755) })
	if err != nil {
		return err
	}
	return w.kill(ctx, b, pid)
}

// swapPinned puts a program in the place of backend delta's that works as well, but is
// not the one that the configuration pins, from now on if it did not: when it dies, it must not be started again.
func (w *world) swapPinned(ctx context.Context, _ int) error {
	b := w.m.delta
	if w.m.lean || b.down() {
		return errSkip
	}
	if !w.m.hasDelta() || !w.m.pinned {
		if err := w.pin(ctx, 0); err != nil {
			return err
		}
		w.rushed = true
	}
	if err := w.calm(ctx); err != nil {
		return err
	}
	pid := w.pid(ctx, b)
	if pid == 0 {
		return errSkip
	}
	text, err := os.ReadFile(w.source(b))
	if err != nil {
		return err
	}
	b.missing, b.wrong = true, true
	err = w.place(b, func(path string) error { return os.WriteFile(path, append(text, 0), 0o755) })
	if err != nil {
		return err
	}
	return w.kill(ctx, b, pid)
}

// starveBackend lets a backend have no more memory, and then has it need some: its
// process dies of that, and the next one has enough.
func (w *world) starveBackend(ctx context.Context, arg int) error {
	b, pid, ok := w.scripted(ctx, arg)
	if !ok {
		return errSkip
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: 1, Max: 1}, nil); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("limit a backend's memory: %w", err)
	}
	return w.actOn(ctx, b, pid, "garbage: {id: %d, kinds: [oversize]}")
}

func (w *world) healBackend(_ context.Context, _ int) error {
	healed := false
	for _, b := range w.m.all() {
		if !b.crash && !b.missing {
			continue
		}
		healed = true
		b.crash, b.litter, b.wrong = false, false, false
		if b.missing {
			b.missing = false
			if err := w.link(b); err != nil {
				return fmt.Errorf("put %s back: %w", filepath.Base(w.program(b)), err)
			}
		}
		if err := w.writeScenario(b); err != nil {
			return err
		}
	}
	if !healed {
		return errSkip
	}
	return nil
}

// anyDown reports whether a backend of the configuration cannot run.
func (w *world) anyDown() bool { return slices.ContainsFunc(w.m.configured(), (*backend).down) }
