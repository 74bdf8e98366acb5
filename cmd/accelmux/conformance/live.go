package conformance

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/accelmux/accelmux/core/plug"
)

// byHand starts the program without the environment variables of the handshake.
func (c *check) byHand(ctx context.Context) error {
	p, err := launch(c.Program, "", plug.Environment(c.Env), noSandbox)
	if err != nil {
		return plug.StartError(c.Program, err)
	}
	defer p.kill()
	if !p.ended(ctx, c.timing.Start) {
		c.fail(startedByHand, "it has not exited within %s", c.timing.Start)
		return nil
	}
	// The output is complete when all its writers have exited.
	for _, done := range []<-chan struct{}{p.output.done, p.log.done} {
		select {
		case <-done:
		case <-time.After(c.timing.Terminate):
		}
	}
	printed := p.log.last() != ""
	select {
	case line := <-p.output.line:
		printed = printed || strings.TrimSpace(line) != ""
	default:
	}
	switch {
	case p.cmd.ProcessState.ExitCode() != 1:
		c.fail(startedByHand, "it ended with %s, want exit status 1", p.cmd.ProcessState)
	case !printed:
		c.fail(startedByHand, "it printed nothing")
	default:
		c.pass(startedByHand)
	}
	return nil
}

// live checks most rules, with one process.
func (c *check) live(ctx context.Context) error {
	s, err := c.open(ctx, "", c.box(c.HostPaths))
	if errors.Is(err, errStart) {
		c.fail(handshake, "%s", err)
	}
	if err != nil {
		return err
	}
	defer s.close()
	c.pass(handshake)
	c.judge(clientCertificate, s.at.checkClients(ctx, s.certificate, c.timing.Configure))
	limited, cancel := context.WithTimeout(ctx, c.timing.Configure)
	c.judge(healthService, health(limited, s.conn))
	cancel()
	for _, step := range []func(context.Context, *session) error{c.accepts, c.watches} {
		if err := step(ctx, s); err != nil {
			return err
		}
	}
	if ending := s.ending(); ending != "" {
		c.fail(watchStream, "%s", ending)
		return stopError{errors.New(ending)}
	}
	c.terminates(ctx, s)
	c.judgeOutput(s)
	return nil
}

// accepts checks the first call of Configure.
func (c *check) accepts(ctx context.Context, s *session) error {
	answer, err := s.configure(ctx, c.Settings, c.HostPaths, c.timing.Configure, nil)
	if err == nil && len(answer.GetErrors()) > 0 {
		// The settings may be wrong, not the backend.
		return fmt.Errorf("the backend refuses the settings %s (%s); give settings that it accepts", c.Settings, fieldErrors(answer))
	}
	c.judge(configure, err)
	if err != nil {
		return stopError{err}
	}
	c.identifies(answer)
	switch again, err := s.configure(ctx, c.Settings, c.HostPaths, c.timing.Configure, unknown); {
	case err != nil:
		c.fail(unknownFields, "with an unknown field %s", err)
	case len(again.GetErrors()) > 0:
		c.fail(unknownFields, "with an unknown field, Configure refuses the settings: %s", fieldErrors(again))
	default:
		c.pass(unknownFields)
		c.identifies(again)
	}
	return nil
}

// watches checks the rules that need the inventory, with two Watch streams, one after the
// other.
func (c *check) watches(ctx context.Context, s *session) error {
	w, err := c.watchListed(ctx, s, false)
	c.judge(firstInventory, err)
	if err != nil {
		return stopError{err}
	}
	defer w.stop()
	c.pass(generations, watchStream, watchRate)
	c.reconfigures(ctx, s, w)
	c.beats(ctx, w)
	c.comparesInventory(ctx, w)
	before, _ := w.newest()
	refused := c.refuses(ctx, s)
	w.stop()

	w, err = c.watchListed(ctx, s, false)
	c.judge(newStream, err)
	if err != nil {
		return stopError{err}
	}
	defer w.stop()
	now, _ := w.newest()
	if refused {
		c.stays(before, now)
	}
	c.reconfigures(ctx, s, w)
	c.samples(ctx, s, w)
	c.changes(ctx, w)
	c.hooks(ctx, s, w)
	return nil
}

// beats checks that heartbeats come.
func (c *check) beats(ctx context.Context, w *stream) {
	limit := 2 * w.check.timing.Silence
	if w.await(ctx, limit, func() bool { return w.beats >= missedBeats }) {
		c.pass(heartbeats)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c.fail(heartbeats, "%d heartbeats came within %s, with an interval of %s", w.beats, limit, w.pace)
}

// changes checks that Watch reports a change of the hardware.
func (c *check) changes(ctx context.Context, w *stream) {
	if c.HardwareChange == "" {
		c.skip("run with --hardware-change", changeReported)
		return
	}
	_, before := w.newest()
	command := exec.CommandContext(ctx, "/bin/sh", "-c", c.HardwareChange)
	// A process group of its own: one signal kills all its processes.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = c.timing.Terminate
	if output, err := command.CombinedOutput(); err != nil {
		c.fail(changeReported, "the command of --hardware-change failed: %s: %s", err, output)
		return
	}
	if !w.await(ctx, c.timing.Change, func() bool { return w.took > before }) {
		c.fail(changeReported, "no inventory came within %s after the hardware changed", c.timing.Change)
		return
	}
	c.pass(changeReported)
}

// terminates checks that SIGTERM ends the process during a Watch stream.
func (c *check) terminates(ctx context.Context, s *session) {
	w, err := c.watchListed(ctx, s, true)
	if err != nil {
		c.fail(newStream, "the third stream: %s", err)
		return
	}
	defer w.stop()
	w.expectEnd()
	s.signal(syscall.SIGTERM)
	if s.ended(ctx, c.timing.Terminate) {
		c.pass(sigterm)
	} else {
		c.fail(sigterm, "it still runs %s after SIGTERM", c.timing.Terminate)
	}
}

// judgeOutput checks the process's output.
func (c *check) judgeOutput(s *session) {
	c.judge(stdoutClean, s.output.dirty())
	if lines, wrong := s.log.judged(); lines == 0 {
		c.skip("it logged nothing", logLines)
	} else {
		c.judge(logLines, wrong)
	}
}
