package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/accelmux/accelmux/proto/goplugin"
	"github.com/accelmux/accelmux/test/hostile"
)

// Backend epsilon is this program: where the agent starts it as a backend, it is the
// hostile one. The files say which misdeed it is up to, and whether it is time for it.
const (
	misdeedFile = "misdeed"
	whileFile   = "misdeed-now"
)

// isBackend reports whether this process is a backend.
func isBackend() bool { return os.Getenv(goplugin.Handshake.MagicCookieKey) != "" }

// serveBackend is such a process.
func serveBackend() error {
	dir := os.Getenv(dirEnv)
	name, err := os.ReadFile(dir + "/" + misdeedFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := errors.Join(os.Setenv(hostile.MisdeedEnv, string(name)), os.Setenv(hostile.WhileEnv, dir+"/"+whileFile)); err != nil {
		return err
	}
	hostile.Serve()
	return nil
}

// misdeeds are those that take place here: nobody listens to telemetry.
func misdeeds() []hostile.Misdeed {
	return slices.DeleteFunc(hostile.All(), func(m hostile.Misdeed) bool { return m.Call == "Sample" })
}

// misbehave arms a sound process with a misdeed, and then has it begin; one that takes
// place at the start begins with another process.
func (w *world) misbehave(ctx context.Context, arg int) error {
	b := w.m.epsilon
	if b.down() {
		return errSkip
	}
	if err := w.calm(ctx); err != nil {
		return err
	}
	deed, _ := pick(misdeeds(), arg)
	if err := os.WriteFile(w.path(misdeedFile), []byte(deed.Name), 0o600); err != nil {
		return err
	}
	w.watch.spare(wildName)
	if err := w.renew(ctx, b); err != nil {
		return err
	}
	b.wild = true
	if err := os.WriteFile(w.path(whileFile), nil, 0o600); err != nil {
		return err
	}
	if early(deed) {
		return w.killWild(ctx)
	}
	return nil
}

// early reports whether a misdeed takes place at the start of a process, or in a call that
// a new one gets at once.
func early(m hostile.Misdeed) bool {
	switch m.Call {
	case "Configure", "Watch":
		return true
	case "":
		return slices.Contains([]hostile.Group{hostile.Starts, hostile.Hangs, hostile.Crashes}, m.Group) && m.Name != "crashes-in-a-loop"
	}
	return false
}

// renew replaces a backend's process by another one and waits for that.
func (w *world) renew(ctx context.Context, b *backend) error {
	pid := w.pid(ctx, b)
	if pid == 0 {
		return errSkip
	}
	if err := w.kill(ctx, b, pid); err != nil {
		return err
	}
	return w.settle(ctx)
}

// killWild kills what runs of epsilon.
func (w *world) killWild(_ context.Context) error {
	for _, t := range tasks(w.dir) {
		if t.Name == w.selfName {
			if err := hurt(t.PID, syscall.SIGKILL); err != nil {
				return err
			}
			w.killed[t.PID] = w.m.epsilon
		}
	}
	return nil
}

// behave ends a misdeed. A process that is killed meanwhile is replaced by a sound one;
// otherwise the agent has to find out by itself that it hangs, and comes back to a
// backend that crashed.
func (w *world) behave(ctx context.Context, arg int) error {
	b := w.m.epsilon
	if !b.wild {
		return errSkip
	}
	b.wild = false
	if err := errors.Join(os.Remove(w.path(misdeedFile)), os.Remove(w.path(whileFile))); err != nil {
		return err
	}
	if arg%2 == 0 {
		return w.killWild(ctx)
	}
	return nil
}

// misdeed is what epsilon is up to, for a report.
func (w *world) misdeed() string {
	name, err := os.ReadFile(w.path(misdeedFile))
	if err != nil || !w.m.epsilon.wild {
		return ""
	}
	return "backend epsilon is up to " + strings.TrimSpace(string(name)) + "\n"
}
