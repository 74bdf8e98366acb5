package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/openfiles"
	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/text"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// CallError is a backend's refusal of a call, or a timeout; then Err wraps
// context.DeadlineExceeded.
type CallError struct {
	Backend, Call string
	// Message is the backend's, clean and short: it may be shown to a pod's user.
	Message string
	// Err is the gRPC error, or why there was no answer.
	Err error
}

// Error names the backend and the call.
func (e *CallError) Error() string {
	return fmt.Sprintf("backend %s: %s: %s", e.Backend, e.Call, e.Message)
}

// Unwrap returns the gRPC error.
func (e *CallError) Unwrap() error { return e.Err }

// Prepare prepares the devices of the request for its holder. The caller makes one call for
// a device at a time; ended is called once, when the backend no longer works on the
// devices. That may be after Prepare has returned: if ctx ended, when the call ends; if the
// call exceeded its deadline and was cancelled, when Timing.Abandon has passed or the
// process has ended. Exceeding the deadline does not end the process. limit is the deadline, 0 the
// usual one; with a limit the call is also cancelled when ctx ends. Errors:
// ErrUnknownBackend, ErrNotRunning, ErrNotSupported, a *CallError, the context's.
func (s *Supervisor) Prepare(ctx context.Context, backend string, request *backendv1.PrepareRequest, limit time.Duration, ended func()) (*backendv1.PrepareResponse, error) {
	return devices(ctx, s, deviceCall[backendv1.PrepareResponse]{
		name: "Prepare", backend: backend, ids: heldIDs(request.GetDevices()), deadline: cmp.Or(limit, s.timing.Prepare), ended: ended, cancels: limit != 0,
		can: func(d inventory.Description) bool { return d.Prepare },
		do: func(ctx context.Context, service backendv1.BackendServiceClient) (*backendv1.PrepareResponse, error) {
			return service.Prepare(ctx, request)
		},
	})
}

// heldIDs returns the IDs of the devices.
func heldIDs(devices []*backendv1.HeldDevice) []string {
	ids := make([]string, len(devices))
	for i, d := range devices {
		ids[i] = d.GetId()
	}
	return ids
}

// Release undoes Prepare for the holder of the request. Errors and ended are as for
// Prepare. Each device's result shows whether it was released.
func (s *Supervisor) Release(ctx context.Context, backend string, request *backendv1.ReleaseRequest, ended func()) (*backendv1.ReleaseResponse, error) {
	return devices(ctx, s, deviceCall[backendv1.ReleaseResponse]{
		name: "Release", backend: backend, ids: heldIDs(request.GetDevices()), deadline: s.timing.Release, ended: ended,
		can: func(d inventory.Description) bool { return d.Release },
		do: func(ctx context.Context, service backendv1.BackendServiceClient) (*backendv1.ReleaseResponse, error) {
			return service.Release(ctx, request)
		},
	})
}

// Reset tries to recover faulted devices. Errors and ended are as for Prepare.
func (s *Supervisor) Reset(ctx context.Context, backend string, ids []string, ended func()) (*backendv1.ResetResponse, error) {
	return devices(ctx, s, deviceCall[backendv1.ResetResponse]{
		name: "Reset", backend: backend, ids: ids, deadline: s.timing.Reset, ended: ended,
		can: func(d inventory.Description) bool { return d.Reset },
		do: func(ctx context.Context, service backendv1.BackendServiceClient) (*backendv1.ResetResponse, error) {
			return service.Reset(ctx, &backendv1.ResetRequest{DeviceIds: ids})
		},
	})
}

// Users returns the processes that have one of the nodes open, but for the backend's own, which it does not ask. Errors are
// ErrUnknownBackend, ErrNotRunning, or for the operator: it is not known.
func (s *Supervisor) Users(ctx context.Context, backend string, nodes []inventory.DeviceNode) (openfiles.Processes, error) {
	b, err := s.backend(backend)
	if err != nil {
		return nil, err
	}
	i, err := b.enter(nil)
	if err != nil {
		return nil, err
	}
	defer i.finish()
	return i.process.Users(ctx, nodes)
}

// deviceCall is one call for some devices.
type deviceCall[R any] struct {
	name, backend string
	ids           []string
	deadline      time.Duration
	can           func(inventory.Description) bool
	do            func(context.Context, backendv1.BackendServiceClient) (*R, error)
	ended         func()
	// cancels: the end of the caller's context cancels the call, as its deadline does.
	cancels bool
}

// devices makes the call. It returns when ctx ends, but the call itself continues until its
// end or its deadline, because the backend works on the devices also without a caller.
func devices[R any](ctx context.Context, s *Supervisor, c deviceCall[R]) (*R, error) {
	if len(c.ids) == 0 {
		c.ended()
		return new(R), nil
	}
	b, err := s.backend(c.backend)
	if err != nil {
		c.ended()
		return nil, err
	}
	i, err := b.enter(c.can)
	if err != nil {
		c.ended()
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	type result struct {
		answer *R
		err    error
	}
	results := make(chan result, 1)
	go func() {
		answer, err := c.perform(ctx, i)
		overran := errors.Is(err, errOverran)
		if !overran {
			c.ended()
		}
		results <- result{answer, err}
		i.finish() // a cancelled call does not keep a replaced process alive
		if overran {
			i.outlast()
			c.ended()
		}
	}()
	select {
	case r := <-results:
		return r.answer, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("backend %s: %s: %w", c.backend, c.name, context.Cause(ctx))
	}
}

// errOverran marks a call on which the backend may still be working. It does not end the
// process: a slow device must not affect the others, and missing heartbeats show a backend
// that hangs as a whole.
var errOverran = fmt.Errorf("the call was cancelled: %w", context.DeadlineExceeded)

// perform makes the call, and cancels it at its deadline, or when caller ends if that cancels it.
func (c *deviceCall[R]) perform(caller context.Context, i *instance) (*R, error) {
	ctx, cancel := context.WithTimeout(i.ctx, c.deadline)
	defer cancel()
	if c.cancels {
		defer context.AfterFunc(caller, cancel)()
	}
	answer, err := c.do(ctx, i.process.Service)
	if err == nil {
		return answer, nil
	}
	late := plug.Overran(ctx, err)
	if status.Code(err) == codes.Unavailable {
		// The connection is broken, most likely because the process has ended.
		plug.Within(i.ctx.Done(), i.timing.Reap)
	}
	failed := &CallError{Backend: c.backend, Call: c.name, Message: status.Convert(err).Message(), Err: err}
	switch {
	case i.ctx.Err() != nil:
		failed.Message = "the backend stopped during the call: " + text.Shorten(context.Cause(i.ctx).Error(), 512)
		failed.Err = errors.Join(ErrNotRunning, err)
	case late && c.cancels && caller.Err() != nil: // who does not wait for the answer
		failed.Err = errOverran
	case late:
		failed.Message = fmt.Sprintf("it did not answer within %s, and the call was cancelled: try again after %s; "+
			"if it does not answer then either, check the device and the backend's log", c.deadline, i.timing.Abandon)
		failed.Err = errOverran
		i.log.Warn("a call exceeded its deadline and was cancelled; the process keeps running",
			"call", c.name, "device", strings.Join(c.ids, ","), "deadline", c.deadline)
	}
	return nil, failed
}

// outlast waits until the backend has had time to abandon a cancelled call, or its process
// has ended.
func (i *instance) outlast() {
	timer := time.NewTimer(i.timing.Abandon)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-i.process.Exited():
	case <-i.backend.done:
	}
}

// Sample passes telemetry to take until ctx ends or the process has ended. The error is nil
// only if ctx ended; other errors are as for Prepare. The caller opens one stream for a
// backend at a time.
func (s *Supervisor) Sample(ctx context.Context, backend string, interval time.Duration, take func(*backendv1.SampleResponse)) error {
	b, err := s.backend(backend)
	if err != nil {
		return err
	}
	i, err := b.enter(func(d inventory.Description) bool { return d.Sample })
	if err != nil {
		return fmt.Errorf("Sample: %w", err)
	}
	i.finish() // a stream does not keep a replaced process alive
	stop, cancel := context.WithCancel(i.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	stream, err := i.process.Service.Sample(stop, &backendv1.SampleRequest{Interval: durationpb.New(min(max(interval, time.Second), 10*time.Minute))})
	for err == nil {
		var sample *backendv1.SampleResponse
		if sample, err = stream.Recv(); err == nil {
			take(sample)
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case i.ctx.Err() != nil:
		err = errors.Join(ErrNotRunning, context.Cause(i.ctx))
	}
	return &CallError{Backend: backend, Call: "Sample", Message: status.Convert(err).Message(), Err: err}
}

func (s *Supervisor) backend(name string) (*backend, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.backends[name]; b != nil {
		return b, nil
	}
	return nil, fmt.Errorf("backend %s: %w", name, ErrUnknownBackend)
}

// enter returns the running process, after counting the begin of a call.
func (b *backend) enter(can func(inventory.Description) bool) (*instance, error) {
	var i *instance
	for {
		b.mu.Lock()
		next, public := b.serving, b.public
		b.mu.Unlock()
		if next == nil || next == i {
			err := fmt.Errorf("backend %s: %w (%s)", b.name, ErrNotRunning, public.State)
			if why := cmp.Or(public.Paused, public.LastError); why != "" {
				err = fmt.Errorf("%w: %s", err, why)
			}
			return nil, err
		}
		if i = next; i.begin() {
			break
		} // it is ending; perhaps it was just replaced
	}
	if can != nil && !can(i.rights.desc) {
		i.finish()
		return nil, fmt.Errorf("backend %s: %w", b.name, ErrNotSupported)
	}
	return i, nil
}
