package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/sandbox"
	"github.com/accelmux/accelmux/core/text"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// instance is one process of a backend, from the check of its program to its end. Its
// goroutine sends events to the backend's, and ends with its context; only the fields below
// the mutex are shared.
type instance struct {
	backend *backend
	timing  *Timing
	// spec has the settings of its start, then those that it accepted.
	spec Spec
	log  *slog.Logger

	ctx    context.Context
	cancel context.CancelCauseFunc
	// offers holds new settings for the running process; one slot.
	offers chan json.RawMessage

	process  *process
	client   chan struct{} // closed when go-plugin's start has returned; nil before it
	protocol int
	service  backendv1.BackendServiceClient
	// program is what it was started from, and rights what it was started with.
	program *plug.Program
	rights  rights
	// sum is the program's checksum, for a launcher; "" if none starts it.
	sum string
	// files are those that the process has rights to, when it was started.
	files sandbox.Existing
	// revision is that of the settings in force; offeredRevision that of the latest call.
	revision, offeredRevision uint64
	readyAt                   time.Time // when the first inventory came
	// The fields until delayed are owned by the backend's goroutine: last is the inventory that the sink has, desc the
	// description for the accepted settings, unfit settings that need a process with other rights, and outdated that
	// files appeared that only another process can open.
	last     *inventory.Report
	desc     inventory.Description
	unfit    json.RawMessage
	outdated bool
	// delayed counts updates that had to wait.
	delayed excess

	mu    sync.Mutex
	conn  *grpc.ClientConn
	calls int
	idle  chan struct{} // closed when calls drops to 0; nil while retire does not wait
}

// Events of an instance, in this order, for the backend's goroutine.
type (
	// stageEvent: the instance is in a new state.
	stageEvent struct {
		from  *instance
		state State
	}
	// inventoryEvent: an inventory came; the first one means that it is running.
	inventoryEvent struct {
		from   *instance
		report *inventory.Report
	}
	// configuredEvent: offered settings were accepted, with the description for them, or refused with err, which is
	// errUnfit if they need a process with other rights.
	configuredEvent struct {
		from     *instance
		settings json.RawMessage
		revision uint64 // of the settings that are in force now
		desc     inventory.Description
		err      error
	}
	// appearedEvent: files appeared that the process has rights to; it comes again until the process is replaced.
	appearedEvent struct {
		from  *instance
		files []string
	}
	// endedEvent: the instance has failed or was stopped; its process is being ended.
	endedEvent struct {
		from    *instance
		failure *failure
	}
	// stuckEvent: the process did not end after SIGKILL.
	stuckEvent struct{ from *instance }
	// goneEvent: the process has ended.
	goneEvent struct{ from *instance }
)

// run is the instance's goroutine.
func (i *instance) run() {
	err := i.live()
	i.cancel(err)
	i.backend.post(endedEvent{i, failureOf(err)})
	i.conclude()
}

// conclude ends the process, reports its end to the backend, and removes its directory.
func (i *instance) conclude() {
	if !i.end() {
		i.backend.post(stuckEvent{i})
		select {
		case <-i.process.exited:
		case <-i.backend.done:
			return
		}
	}
	i.backend.post(goneEvent{i})
	// Not before: nothing waits for a disk that does not answer.
	if i.process != nil {
		if err := os.RemoveAll(i.process.dir); err != nil {
			i.log.Warn("cannot remove the socket directory", "error", err)
		}
		if err := i.backend.sup.boxes.endCgroup(i.process.cgroup, i.timing.Reap); err != nil {
			i.log.Warn("cannot remove the cgroup", "error", err)
		}
	}
}

// live takes the process through its states and returns why it ended.
func (i *instance) live() error {
	if err := i.check(); err != nil {
		return err
	}
	defer i.program.Close()
	i.backend.post(stageEvent{i, Starting})
	if err := i.connect(); err != nil {
		return err
	}
	if err := i.checkHealth(i.ctx); err != nil {
		if i.ctx.Err() != nil {
			return i.ended()
		}
		return fail(violated, "its server must serve grpc.health.v1.Health with the service %q: %s", backendplugin.HealthService, text.Printable(status.Convert(err).Message(), 256))
	}
	i.backend.post(stageEvent{i, Configuring})
	if err := i.configure(i.rights.merged); errors.As(err, new(*SettingsError)) {
		return fail(misconfigured, "%w", err)
	} else if err != nil {
		return err
	}
	go i.watchFiles()
	return i.watch()
}

// ended returns why the instance ends.
func (i *instance) ended() error { return context.Cause(i.ctx) }

// check finds and checks the program with its manifest, and computes the rights of the process.
func (i *instance) check() (err error) {
	program, err := plug.Find(i.backend.sup.backendDir, i.spec.Command, plug.Pins{Program: i.spec.Checksum, Manifest: i.spec.ManifestChecksum})
	if err != nil {
		return fail(unavailable, "%w", err)
	}
	i.program = program
	defer func() {
		if err != nil {
			program.Close()
		}
	}()
	if i.launcher() != "" {
		if i.sum, err = program.Checksum(); err != nil {
			return fail(unavailable, "%w", err)
		}
	}
	i.rights, err = i.resolve(i.spec.Settings)
	if errors.As(err, new(*SettingsError)) {
		return fail(misconfigured, "%w", err)
	}
	if err != nil {
		return err
	}
	if i.spec.Sandbox.Mode != sandbox.Off {
		i.files = i.rights.given.Existing(i.paths())
	}
	return nil
}

// reconfigure gives the running process other settings, and returns the description for them. It returns errUnfit if they
// need a process with other rights, and else the errors of configure.
func (i *instance) reconfigure(settings json.RawMessage) (inventory.Description, error) {
	next, err := i.resolve(settings)
	if err == nil && !next.same(i.rights) {
		err = errUnfit
	}
	if err == nil {
		err = i.configure(next.merged)
	}
	return next.desc, err
}

// configure passes merged settings to the process, which checks them. It returns a *SettingsError if
// they were refused, and a *failure if the process must end.
func (i *instance) configure(merged json.RawMessage) error {
	i.offeredRevision++
	revision := i.offeredRevision
	var answer *backendv1.ConfigureResponse
	err := i.ask("Configure", i.timing.Configure, func(ctx context.Context) (err error) {
		answer, err = i.service.Configure(ctx, &backendv1.ConfigureRequest{
			SettingsJson: merged, Paths: i.backend.sup.paths, Revision: revision,
		})
		return err
	})
	if err != nil {
		return err
	}
	if err := i.program.CheckIdentity(answer.GetName(), answer.GetVersion()); err != nil {
		return fail(mismatched, "%w", err)
	}
	if refused := refusal(answer.GetErrors()); refused != nil {
		return refused
	}
	i.revision = revision
	return nil
}

// ask makes one call with a deadline. Any error ends the process.
func (i *instance) ask(call string, deadline time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(i.ctx, deadline)
	defer cancel()
	since := i.process.times()
	err := do(ctx)
	late := overran(ctx, err)
	switch {
	case err == nil:
		return nil
	case i.ctx.Err() != nil:
		return i.ended()
	case late:
		return i.late(since, deadline, "it did not answer "+call+" within %s")
	}
	return i.broken(call, err)
}

// late is the failure of a process that exceeded a deadline, which the format has, since it had these times. One that waited
// for a processor is not to blame.
func (i *instance) late(since times, deadline time.Duration, format string) error {
	now, message := i.process.times(), fmt.Sprintf(format, deadline)
	if now.starved(since, deadline) {
		return fail(crashed, "%s%s; its threads waited %s for a processor: %w", message, i.lastLog(), (now.waited - since.waited).Round(time.Millisecond), errStarved)
	}
	return fail(crashed, "%s%s", message, i.lastLog())
}

// overran reports whether a call failed because its deadline passed. The server has the
// deadline, too, and may end the call a moment before this process's clock does.
func overran(ctx context.Context, err error) bool {
	if code := status.Code(err); code == codes.Canceled || code == codes.DeadlineExceeded {
		within(ctx.Done(), 100*time.Millisecond)
	}
	return ctx.Err() != nil
}

// broken turns an error of a call into a failure. If the process has ended, the failure is
// its end, not the call's error.
func (i *instance) broken(call string, err error) error {
	within(i.process.exited, i.timing.Reap)
	if i.ctx.Err() != nil {
		return i.ended()
	}
	if ending := i.process.ending(); ending != "" {
		within(i.process.stderr.done, i.timing.Reap)
		return fail(crashed, "it %s%s", ending, i.lastLog())
	}
	answer := status.Convert(err)
	if answer.Code() == codes.ResourceExhausted || answer.Code() == codes.Unimplemented {
		return fail(violated, "%s: %s", call, text.Printable(answer.Message(), 256))
	}
	if bad := broken(answer.Message()); bad != "" {
		return fail(violated, "%s: %s", call, text.Printable(bad, 256))
	}
	return fail(crashed, "%s failed: %s%s", call, text.Printable(answer.Message(), 256), i.lastLog())
}

// lastLog returns the process's most relevant log line, as the end of a message.
func (i *instance) lastLog() string {
	if last := i.process.stderr.relevant(); last != "" {
		return "; it last logged: " + last
	}
	return ""
}

// end stops the process, closes its pipes and its connection, and reports whether the
// process has ended.
func (i *instance) end() bool {
	if i.client == nil {
		return true
	}
	p := i.process
	gone := true
	if p != nil {
		gone = p.stop(i.timing.Terminate, i.timing.Kill)
		if !gone {
			i.log.Error("the process has not ended after SIGKILL: "+whyAlive("/proc", i.pid()), "pid", p.ID())
		}
		p.release(i.timing.Reap)
	}
	i.mu.Lock()
	conn := i.conn
	i.mu.Unlock()
	if conn != nil {
		_ = conn.Close() // also ends go-plugin's own streams
	}
	within(i.client, i.timing.Reap)
	return gone
}

// pid is the process's ID, 0 if there is none.
func (i *instance) pid() int {
	i.mu.Lock()
	p := i.process
	i.mu.Unlock()
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// begin counts the begin of a call and reports whether it may be made: not if the instance
// is ending.
func (i *instance) begin() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ctx.Err() != nil {
		return false
	}
	i.calls++
	return true
}

// finish counts the end of a call.
func (i *instance) finish() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.calls--; i.calls == 0 && i.idle != nil {
		close(i.idle)
		i.idle = nil
	}
}

// retire ends a replaced instance when its calls have ended.
func (i *instance) retire() {
	i.mu.Lock()
	idle := make(chan struct{})
	if i.calls == 0 {
		close(idle)
	} else {
		i.idle = idle
	}
	i.mu.Unlock()
	timer := time.NewTimer(i.timing.Retire)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	case <-i.ctx.Done():
	}
	i.cancel(errReplaced)
}
