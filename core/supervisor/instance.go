package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/accelmux/accelmux/core/inventory"
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
	spec    Spec
	// fallback are earlier settings, used if the spec's are refused; nil if none.
	fallback json.RawMessage
	log      *slog.Logger

	ctx    context.Context
	cancel context.CancelCauseFunc
	// offers holds new settings for the running process; one slot.
	offers chan json.RawMessage
	// companions receives the arguments of the companion that accepted settings ask for; one
	// slot.
	companions chan []string

	process    *process
	client     chan struct{} // closed when go-plugin's start has returned; nil before it
	protocol   int
	service    backendv1.BackendServiceClient
	desc       inventory.Description
	configured json.RawMessage // what Configure accepted last
	// needs are those of all settings that Configure accepted.
	needs inventory.Needs
	// attributes are those declared for the settings that Configure accepted last.
	attributes []inventory.Declaration
	// sum is the program's checksum, given what the process gets of the needs. grown are settings for which
	// an earlier process was replaced, since it did not have what they need; nil if there are none.
	sum   string
	given sandbox.Needs
	grown json.RawMessage
	// files are those of given when it was started.
	files sandbox.Existing
	// revision is that of configured; offeredRevision that of the latest call.
	revision, offeredRevision uint64
	refused                   error     // the refusal of the spec's settings, if fallback was accepted
	readyAt                   time.Time // when the first inventory came
	// last is the inventory that the sink has; owned by the backend's goroutine.
	last *inventory.Report
	// outgrown: it needs more than it has, and another process is to replace it; owned by the
	// backend's goroutine.
	outgrown bool
	// delayed counts updates that had to wait.
	delayed excess

	mu      sync.Mutex
	conn    *grpc.ClientConn
	calls   int
	idle    chan struct{} // closed when calls drops to 0; nil while retire does not wait
	program *program      // that it was started from
	// missing is what the process lacks of its needs, since the configuration does not give it.
	missing sandbox.Needs
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
	// configuredEvent: offered settings were accepted, or refused with err.
	configuredEvent struct {
		from       *instance
		settings   json.RawMessage
		revision   uint64 // of the settings that are in force now
		needs      inventory.Needs
		attributes []inventory.Declaration
		err        error
		// outgrown: the process needs more for them than it has. If err is not nil, that may be why.
		outgrown bool
	}
	// appearedEvent: files appeared that the process needs; it comes again until the process is replaced.
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
	program, err := i.check()
	if err != nil {
		return err
	}
	defer program.close()
	i.mu.Lock()
	i.program = program
	i.mu.Unlock()
	i.backend.post(stageEvent{i, Starting})
	if err := i.learn(program); err != nil {
		return err
	}
	if _, err := i.introduce(program); err != nil {
		return err
	}
	if err := i.checkHealth(i.ctx); err != nil {
		if i.ctx.Err() != nil {
			return context.Cause(i.ctx)
		}
		return fail(violated, "its server must serve grpc.health.v1.Health with the service %q: %s", backendplugin.HealthService, text.Printable(status.Convert(err).Message(), 256))
	}
	i.backend.post(stageEvent{i, Configuring})
	go i.keepCompanion(program)
	if err := i.configureFirst(); err != nil {
		return err
	}
	go i.watchFiles()
	return i.watch()
}

// check finds and checks the program. The caller must close it.
func (i *instance) check() (*program, error) {
	program, err := checkProgram(i.backend.sup.backendDir, i.spec.Command)
	if err == nil {
		err = program.pinned(i.spec.Checksum)
	}
	if err != nil {
		return nil, fail(unavailable, "%w", err)
	}
	return program, nil
}

// describe calls Describe, checks the answer, and returns the schema of the settings.
func (i *instance) describe() (settingsSchema string, err error) {
	var answer *backendv1.DescribeResponse
	err = i.ask("Describe", i.timing.Describe, func(ctx context.Context) (err error) {
		answer, err = i.service.Describe(ctx, &backendv1.DescribeRequest{})
		return err
	})
	if err != nil {
		return "", err
	}
	if i.desc, err = ParseDescription(answer); err != nil {
		return "", fail(violated, "%w", err)
	}
	return answer.GetSettingsSchema(), nil
}

// configureFirst gives the process its settings before the first Watch.
func (i *instance) configureFirst() error {
	err := i.configure(i.spec.Settings)
	if errors.Is(err, errOutgrown) {
		return fail(outgrown, "%w", err)
	}
	var refused *SettingsError
	if !errors.As(err, &refused) {
		return err
	}
	if i.fallback == nil {
		return fail(misconfigured, "%w", refused)
	}
	i.refused = refused
	if err := i.configure(i.fallback); errors.As(err, new(*SettingsError)) || errors.Is(err, errOutgrown) {
		return fail(misconfigured, "%w", refused)
	} else if err != nil {
		return err
	}
	return nil
}

// configure passes settings to the process, which checks them. It returns a *SettingsError if
// they were refused, errOutgrown if they need more than the process has, also beside a *SettingsError, and
// a *failure if the process must end.
func (i *instance) configure(settings json.RawMessage) error {
	i.offeredRevision++
	revision := i.offeredRevision
	var answer *backendv1.ConfigureResponse
	err := i.ask("Configure", i.timing.Configure, func(ctx context.Context) (err error) {
		answer, err = i.service.Configure(ctx, &backendv1.ConfigureRequest{
			SettingsJson: settings, Paths: i.backend.sup.paths, Revision: revision,
		})
		return err
	})
	if err != nil {
		return err
	}
	more, err := ParseNeeds(answer.GetNeeds())
	outgrown := err == nil && i.outgrows(settings, more)
	if refused := refusal(answer.GetErrors()); refused != nil {
		if outgrown {
			return errors.Join(errOutgrown, refused)
		}
		return refused
	}
	if err != nil {
		return fail(violated, "Configure: %w", err)
	}
	if i.attributes, err = ParseAttributes(answer.GetAttributes()); err != nil {
		return fail(violated, "Configure: %w", err)
	}
	if len(i.attributes) == 0 {
		i.attributes = i.desc.Attributes
	}
	i.configured, i.revision, i.needs = settings, revision, i.needs.Join(more)
	if err := checkCompanion(answer.GetCompanion(), i.desc.Needs.Join(more)); err != nil {
		return fail(violated, "Configure: %w", err)
	}
	if outgrown {
		return errOutgrown // the next process asks for the companion
	}
	i.offerCompanion(answer.GetCompanion())
	return nil
}

// ask makes one call with a deadline. Any error ends the process.
func (i *instance) ask(call string, deadline time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(i.ctx, deadline)
	defer cancel()
	err := do(ctx)
	late := overran(ctx, err)
	switch {
	case err == nil:
		return nil
	case i.ctx.Err() != nil:
		return context.Cause(i.ctx)
	case late:
		return fail(crashed, "it did not answer %s within %s%s", call, deadline, i.lastLog())
	}
	return i.broken(call, err)
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
		return context.Cause(i.ctx)
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
