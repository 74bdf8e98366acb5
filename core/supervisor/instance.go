package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/plug"
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
	// accepted are the settings that the program had accepted before its start; nil if there are none.
	accepted json.RawMessage
	log      *slog.Logger

	ctx    context.Context
	cancel context.CancelCauseFunc
	// offers holds new settings for the running process; one slot.
	offers chan json.RawMessage

	// program is what it was started from, and rights what it was started with.
	program *plug.Program
	rights  rights
	// revision is that of the settings in force; offeredRevision that of the latest call.
	revision, offeredRevision uint64
	readyAt                   time.Time // when the first inventory came
	// The fields until mu are owned by the backend's goroutine: last is the inventory that the sink has, desc the
	// description for the accepted settings, unfit settings that need a process with other rights, and outdated that
	// files appeared that only another process can open.
	last     *inventory.Report
	desc     inventory.Description
	unfit    json.RawMessage
	outdated bool

	mu      sync.Mutex
	process *plug.Process // nil before its start
	calls   int
	idle    chan struct{} // closed when calls drops to 0; nil while retire does not wait
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
	// appearedEvent: files appeared that only another process can open.
	appearedEvent struct {
		from  *instance
		files string
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
	if i.process == nil {
		i.backend.post(goneEvent{i})
		return
	}
	if !i.process.End() {
		i.backend.post(stuckEvent{i})
		select {
		case <-i.process.Exited():
		case <-i.backend.done:
			return
		}
	}
	i.backend.post(goneEvent{i})
	i.process.Remove() // not before: nothing waits for a disk that does not answer
}

// live takes the process through its states and returns why it ended.
func (i *instance) live() error {
	if err := i.check(); err != nil {
		return err
	}
	defer i.program.Close()
	i.backend.post(stageEvent{i, Starting})
	if err := i.start(); err != nil {
		return i.failure(err)
	}
	go i.watchUse()
	if err := i.process.CheckHealth(i.ctx); err != nil {
		if i.ctx.Err() != nil {
			return i.ended()
		}
		return fail(violated, "its server must serve grpc.health.v1.Health with the service %q: %w", backendplugin.HealthService, err)
	}
	i.backend.post(stageEvent{i, Configuring})
	if err := i.configure(i.rights.merged); errors.As(err, new(*SettingsError)) {
		return fail(misconfigured, "%w", err)
	} else if err != nil {
		return err
	}
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
	i.rights, err = i.resolve(i.spec.Settings)
	if errors.As(err, new(*SettingsError)) {
		return fail(misconfigured, "%w", err)
	}
	if err != nil {
		return err
	}
	if pause := i.backend.sup.pausedBy(program.Manifest.PausedWhile); pause != nil {
		return fail(paused, "%w", pause)
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
	err := i.process.Call(i.ctx, "Configure", i.timing.Configure, func(ctx context.Context) (err error) {
		answer, err = i.process.Service.Configure(ctx, &backendv1.ConfigureRequest{
			SettingsJson: merged, Paths: i.backend.sup.room.HostPaths(), Revision: revision,
		})
		return err
	})
	if err != nil {
		return i.failure(err)
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

// start starts the process and connects to it.
func (i *instance) start() error {
	process, err := i.backend.sup.room.Start(i.ctx, plug.Start{
		Name: i.spec.Name, Program: i.program, Policy: i.spec.Sandbox, Given: i.rights.given, Env: i.spec.Env, Log: i.log,
	})
	if err != nil {
		return err
	}
	i.mu.Lock()
	i.process = process
	i.mu.Unlock()
	return process.Connect(i.ctx)
}

// watchUse ends the instance when its process has too many processes or files. It looks at moments that the process cannot
// foresee: the core itself survives when no more processes can be started.
func (i *instance) watchUse() {
	for backoff.Sleep(i.ctx, i.timing.Use/2+rand.N(i.timing.Use)) {
		if err := i.process.CheckUse(); err != nil {
			i.cancel(i.failure(err))
			return
		}
	}
}

// failure turns an error of package plug into a *failure, unless the instance was ended.
func (i *instance) failure(err error) error {
	switch {
	case i.ctx.Err() != nil:
		return i.ended()
	case errors.As(err, new(*plug.UnusableError)):
		return fail(unavailable, "%w", err)
	case errors.As(err, new(*plug.ViolationError)):
		return fail(violated, "%w", err)
	}
	return fail(crashed, "%w", err)
}

// pid is the process's ID, 0 if there is none.
func (i *instance) pid() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.process == nil {
		return 0
	}
	return i.process.PID()
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

// retire ends an instance when its calls have ended, at the latest after Timing.Retire.
func (i *instance) retire(reason error) {
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
	i.cancel(reason)
}
