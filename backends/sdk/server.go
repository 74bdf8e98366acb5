package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Server is a backend as a gRPC service. [Serve] makes one; a test can register
// it with a gRPC server of its own. All methods may be called from any goroutine.
type Server struct {
	backendv1.UnimplementedBackendServiceServer
	backend Backend
	// name and version are the backend's.
	name, version string
	log           *slog.Logger
	reporter      *Reporter

	ctx  context.Context // the loop's; ends with the process
	end  context.CancelFunc
	dead chan struct{} // closed after a panic in the loop

	configuring sync.Mutex // Configure calls never overlap
	// sampling is held by the one stream of samples.
	sampling chan struct{}

	mu         sync.Mutex
	configured bool
	loop       *loop
}

// loop is one run of Backend.Watch.
type loop struct {
	done chan struct{}
	err  error // valid once done is closed
}

// NewServer returns a server for b, or an error if it has no name or version. A nil logger
// means [Logger]. The caller closes it.
func NewServer(b Backend, log *slog.Logger) (*Server, error) {
	name, version := b.Identity()
	if name == "" || version == "" {
		return nil, errors.New("the backend lacks a name or a version: return those of its manifest from Identity")
	}
	if log == nil {
		log = Logger()
	}
	ctx, end := context.WithCancel(context.Background())
	return &Server{
		backend: b, name: name, version: version, log: log, reporter: newReporter(),
		ctx: ctx, end: end, dead: make(chan struct{}), sampling: make(chan struct{}, 1),
	}, nil
}

// Close ends all streams and the backend's loop. It waits for the loop until
// ctx ends, and then returns an error.
func (s *Server) Close(ctx context.Context) error {
	s.end()
	s.mu.Lock()
	l := s.loop
	s.mu.Unlock()
	if l == nil {
		return nil
	}
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the backend's loop did not end: %w", ctx.Err())
	}
}

// Configure implements the contract.
func (s *Server) Configure(ctx context.Context, req *backendv1.ConfigureRequest) (res *backendv1.ConfigureResponse, err error) {
	defer s.recovered("Configure", &err)
	paths, err := hostPaths(req.GetPaths())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	settings := json.RawMessage(req.GetSettingsJson())
	if len(settings) == 0 {
		settings = json.RawMessage("{}")
	}

	s.configuring.Lock()
	defer s.configuring.Unlock()
	if c, ok := s.backend.(Configurer); ok {
		err = c.Configure(ctx, settings, paths)
	}
	if err != nil {
		fields, err := refusal(ctx, err)
		if err != nil {
			return nil, err
		}
		return &backendv1.ConfigureResponse{Name: s.name, Version: s.version, Errors: fields}, nil
	}
	s.mu.Lock()
	s.configured = true
	s.mu.Unlock()
	s.reporter.accept(req.GetRevision())
	return &backendv1.ConfigureResponse{Name: s.name, Version: s.version}, nil
}

// refusal converts an error of Configure to field errors, unless the call itself failed.
func refusal(ctx context.Context, err error) ([]*backendv1.FieldError, error) {
	if ctx.Err() != nil {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	var wire []*backendv1.FieldError
	for _, f := range fieldErrors(err) {
		wire = append(wire, &backendv1.FieldError{Field: clip(f.Field, maxMessage), Message: clip(f.Message, maxMessage)})
	}
	return wire, nil
}

// Prepare implements the contract.
func (s *Server) Prepare(ctx context.Context, req *backendv1.PrepareRequest) (res *backendv1.PrepareResponse, err error) {
	defer s.recovered("Prepare", &err)
	p, ok := s.backend.(Preparer)
	if !ok {
		return nil, s.unimplemented("Prepare")
	}
	edits, err := p.Prepare(ctx, preparation(req))
	if err != nil {
		return nil, callError(ctx, err)
	}
	return &backendv1.PrepareResponse{Edits: edits}, nil
}

// Release implements the contract.
func (s *Server) Release(ctx context.Context, req *backendv1.ReleaseRequest) (res *backendv1.ReleaseResponse, err error) {
	defer s.recovered("Release", &err)
	r, ok := s.backend.(Releaser)
	if !ok {
		return nil, s.unimplemented("Release")
	}
	devices := heldOf(req.GetDevices())
	failed, err := r.Release(ctx, holderOf(req.GetHolder()), devices)
	if err != nil {
		return nil, callError(ctx, err)
	}
	return releaseResponse(devices, failed), nil
}

// Reset implements the contract.
func (s *Server) Reset(ctx context.Context, req *backendv1.ResetRequest) (res *backendv1.ResetResponse, err error) {
	defer s.recovered("Reset", &err)
	r, ok := s.backend.(Resetter)
	if !ok {
		return nil, s.unimplemented("Reset")
	}
	results, err := r.Reset(ctx, req.GetDeviceIds())
	if err != nil {
		return nil, callError(ctx, err)
	}
	for _, r := range results {
		r.Message = clip(r.GetMessage(), maxMessage)
	}
	return &backendv1.ResetResponse{Results: results}, nil
}

// The bounds of SampleRequest.interval.
const (
	minSample     = time.Second
	maxSample     = 10 * time.Minute
	defaultSample = 10 * time.Second
)

// Sample implements the contract. The core may have cancelled the previous stream a moment ago:
// that one ends before this one calls the backend.
func (s *Server) Sample(req *backendv1.SampleRequest, stream backendv1.BackendService_SampleServer) (err error) {
	defer s.recovered("Sample", &err)
	sampler, ok := s.backend.(Sampler)
	if !ok {
		return s.unimplemented("Sample")
	}
	every := defaultSample
	if req.GetInterval() != nil {
		every = min(max(req.GetInterval().AsDuration(), minSample), maxSample)
	}
	ctx := stream.Context()
	select {
	case s.sampling <- struct{}{}:
		defer func() { <-s.sampling }()
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-s.ctx.Done():
		return errEnding
	}
	s.log.Debug("the core listens to telemetry", "interval", every.String())
	defer s.log.Debug("the core listens to telemetry no more")
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		metrics, err := sampler.Sample(ctx)
		if err != nil {
			return callError(ctx, err)
		}
		if err := stream.Send(&backendv1.SampleResponse{Time: timestamppb.Now(), Metrics: metrics}); err != nil {
			return fmt.Errorf("send sample: %w", err)
		}
		select {
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-s.ctx.Done():
			return errEnding
		case <-tick.C:
		}
	}
}

var errEnding = status.Error(codes.Unavailable, "the backend is ending")

func (s *Server) unimplemented(call string) error {
	return status.Errorf(codes.Unimplemented, "backend %s does not implement %s", s.name, call)
}

// callError returns a status of the backend as it is, and makes one of any other error. Operators
// or users of the pod read the text.
func callError(ctx context.Context, err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	code := codes.Internal
	if errors.Is(err, ErrParameters) {
		code = codes.InvalidArgument
	}
	return status.Error(code, clip(err.Error(), maxMessage))
}

// recovered converts a panic in a call to its error.
func (s *Server) recovered(call string, err *error) {
	if p := recover(); p != nil {
		s.log.Error("the backend panicked in a call", "call", call, "panic", fmt.Sprint(p), "stack", stack())
		*err = status.Errorf(codes.Internal, "backend %s panicked in %s: %s", s.name, call, clip(fmt.Sprint(p), maxMessage))
	}
}

// stack returns the stack, short enough for one line of log.
func stack() string { return clip(string(debug.Stack()), 16<<10) }
