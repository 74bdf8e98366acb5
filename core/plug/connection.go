package plug

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/accelmux/accelmux/core/sandbox"
	"github.com/accelmux/accelmux/core/text"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// Process is a backend's process with its connection, from its start to its end. The caller of [Room.Start] calls Connect
// once, End, and Remove when the process has ended.
type Process struct {
	// Service and Protocol are set by Connect.
	Service  backendv1.BackendServiceClient
	Protocol int

	room    *Room
	name    string // the backend's
	program *Program
	log     *slog.Logger
	run     *process
	// client is closed when go-plugin's start has returned; results has what it returned.
	client  chan struct{}
	results chan dispensed
	frames  *frames
	// delayed counts updates that had to wait.
	delayed excess

	mu   sync.Mutex
	conn *grpc.ClientConn
}

// PID is the process ID; 0 if it does not run.
func (p *Process) PID() int {
	p.run.mu.Lock()
	defer p.run.mu.Unlock()
	return p.run.pid
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.run.exited }

// Appeared receives a text with the paths of files that the process was given, and cannot open, as they appeared after its
// start: only another process can. It comes once.
func (p *Process) Appeared() <-chan string { return p.run.appeared }

// Report is what was reported of the sandbox; only after Connect.
func (p *Process) Report() sandbox.Report { return p.run.report }

// LastLog returns the process's most relevant log line, as the end of a message.
func (p *Process) LastLog() string {
	if last := p.run.stderr.relevant(); last != "" {
		return "; it last logged: " + last
	}
	return ""
}

// Call makes one call with a deadline. The error says why the process cannot be used any longer; it is a [*ViolationError] if
// the process broke the contract, wraps [ErrStarved] if the node is to blame, and is the cause of ctx if that ended.
func (p *Process) Call(ctx context.Context, call string, deadline time.Duration, do func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	since := p.Times()
	err := do(limited)
	late := Overran(limited, err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case late:
		return p.Late(since, deadline, "it did not answer "+call+" within %s")
	}
	return p.Explain(ctx, call, err)
}

// Late is the error of a process that exceeded a deadline, which the format has, since it had these times. One that waited
// for a processor is not to blame.
func (p *Process) Late(since Times, deadline time.Duration, format string) error {
	now, message := p.Times(), fmt.Sprintf(format, deadline)
	if now.starved(since, deadline) {
		return fmt.Errorf("%s%s; its threads waited %s for a processor: %w", message, p.LastLog(), (now.waited - since.waited).Round(time.Millisecond), ErrStarved)
	}
	return errors.New(message + p.LastLog())
}

// Overran reports whether a call failed because its deadline passed. The server has the
// deadline, too, and may end the call a moment before this process's clock does.
func Overran(ctx context.Context, err error) bool {
	if code := status.Code(err); code == codes.Canceled || code == codes.DeadlineExceeded {
		Within(ctx.Done(), 100*time.Millisecond)
	}
	return ctx.Err() != nil
}

// Explain returns the error of [Process.Call] for that of a call. If the process has ended, it is its end, not the call's
// error.
func (p *Process) Explain(ctx context.Context, call string, err error) error {
	Within(p.run.exited, p.room.timing.Reap)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if ending := p.run.ending(); ending != "" {
		Within(p.run.stderr.done, p.room.timing.Reap)
		return fmt.Errorf("it %s%s", ending, p.LastLog())
	}
	if broken := p.frames.violation(); broken != nil {
		return broken
	}
	answer := status.Convert(err)
	if answer.Code() == codes.ResourceExhausted || answer.Code() == codes.Unimplemented {
		return violation("%s: %s", call, text.Shorten(answer.Message(), 256))
	}
	if bad := broken(answer.Message()); bad != "" {
		return violation("%s: %s", call, text.Shorten(bad, 256))
	}
	return fmt.Errorf("%s failed: %s%s", call, text.Shorten(answer.Message(), 256), p.LastLog())
}

// CheckHealth calls the health service with a deadline, unlike go-plugin's Ping.
func (p *Process) CheckHealth(ctx context.Context) error {
	p.mu.Lock()
	conn := p.conn
	p.mu.Unlock()
	if conn == nil {
		return errors.New("there is no connection")
	}
	return checkHealth(ctx, conn, p.room.timing.Health)
}

func checkHealth(ctx context.Context, conn *grpc.ClientConn, deadline time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: backendplugin.HealthService})
	if err != nil {
		return errors.New(text.Shorten(status.Convert(err).Message(), 256))
	}
	if answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return errors.New("its server reports that it is not serving")
	}
	return nil
}

// CheckUse returns a [*ViolationError] if the backend has too many processes and threads, or uses the directory of its
// socket for other files: what is full then is full for all backends.
func (p *Process) CheckUse() error {
	if n := p.room.reaper.tasks(p.PID(), p.run.dir); n > maxTasks {
		return violation("it has more than %d processes and threads, the most that a backend may have", maxTasks)
	}
	if !isSmall(p.run.dir) {
		return violation("it has more than %d files or %d kB in the directory of its socket, the most that a backend may have", maxSocketFiles, maxSocketBytes>>10)
	}
	return nil
}

// End stops the process, closes its pipes and its connection, and reports whether the
// process has ended: not if it hangs in the kernel.
func (p *Process) End() bool {
	gone := p.run.stop(p.room.timing.Terminate, p.room.timing.Kill)
	if !gone {
		p.log.Error("the process has not ended after SIGKILL: "+WhyAlive(p.PID()), "pid", p.PID())
	}
	p.run.release(p.room.timing.Reap)
	p.mu.Lock()
	conn := p.conn
	p.mu.Unlock()
	if conn != nil {
		_ = conn.Close() // also ends go-plugin's own streams
	}
	Within(p.client, p.room.timing.Reap)
	return gone
}

// Remove removes the directory of the socket and the cgroup of a process that has ended.
func (p *Process) Remove() {
	p.room.mu.Lock()
	delete(p.room.processes, p)
	p.room.mu.Unlock()
	if err := p.room.remove(p.run.dir, p.run.cgroup); err != nil {
		p.log.Warn("cannot remove the socket directory or the cgroup", "error", err)
	}
}
