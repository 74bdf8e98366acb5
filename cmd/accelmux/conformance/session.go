package conformance

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/sandbox"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// session is one start of the program, with a connection to it.
type session struct {
	*process
	dir         string
	at          endpoint
	certificate tls.Certificate
	conn        *grpc.ClientConn
	service     backendv1.BackendServiceClient
	trap        *trap // nil without one

	mu      sync.Mutex
	sent    uint64          // revision of the last Configure
	refused map[uint64]bool // revisions of refused settings
	// generation is the last one, over all streams of the process; 0 before the first.
	generation uint64
}

// errStart is wrapped by errors of a program that breaks the handshake.
var errStart = errors.New("connect to the program")

// open starts the program in the sandbox, or below a helper if mode is not "", and connects to it. An error that does not wrap errStart is not the
// program's fault.
func (c *check) open(ctx context.Context, mode string, box sandbox.Sandbox) (*session, error) {
	dir, err := os.MkdirTemp(c.dir, "s")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the socket: %w", err)
	}
	security, text, err := plug.MutualTLS()
	if err != nil {
		return nil, err
	}
	box.Dir = dir
	p, err := launch(c.Program, mode, slices.Concat(plug.Environment(c.Env), handshakeEnv(dir, text)), box)
	if err != nil {
		return nil, plug.StartError(c.Program, err)
	}
	if len(p.report.Measures) > 0 && box.Paths == sandbox.Paths(c.HostPaths) { // not of a start without hardware
		c.report = p.report
	}
	s := &session{process: p, dir: dir, certificate: security.Certificates[0], refused: map[uint64]bool{}}
	if mode == helperTrap {
		if s.trap, err = newTrap(p.helper); err != nil {
			s.close()
			return nil, err
		}
	}
	if err := s.connect(ctx, mode, c.timing.Start); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// connect waits for the handshake.
func (s *session) connect(ctx context.Context, mode string, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var line string
	select {
	case line = <-s.output.line:
	case <-timer.C:
		return fmt.Errorf("%w: it printed no handshake within %s: is it a backend?", errStart, limit)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if line == "" && mode == "" {
		s.ended(ctx, time.Second)
		text := "it closed standard output without the handshake"
		if ending := s.ending(); ending != "" {
			text = ending
		}
		return fmt.Errorf("%w: %s: is it a backend?", errStart, text)
	}
	var err error
	if s.at, err = parseHandshake(line, s.dir); err != nil {
		return fmt.Errorf("%w: %w", errStart, err)
	}
	if s.conn, err = s.at.dial(s.at.credentials(s.certificate)); err != nil {
		return fmt.Errorf("connect to the program: %w", err)
	}
	s.service = backendv1.NewBackendServiceClient(s.conn)
	return nil
}

// close ends the process.
func (s *session) close() {
	if s.conn != nil {
		_ = s.conn.Close()
	}
	s.kill()
	if s.trap != nil {
		s.trap.close()
	}
	_ = os.RemoveAll(s.dir)
}

// failed describes the error of a call.
func (s *session) failed(call string, limit time.Duration, err error) error {
	if status.Code(err) == codes.DeadlineExceeded {
		return fmt.Errorf("%s did not answer within %s", call, limit)
	}
	if status.Code(err) == codes.Unavailable { // most likely the process has ended
		s.ended(context.Background(), 250*time.Millisecond)
	}
	if ending := s.ending(); ending != "" {
		return fmt.Errorf("%s failed: %s", call, ending)
	}
	return fmt.Errorf("%s failed: %s: %s", call, status.Code(err), status.Convert(err).Message())
}

// unknown is a field that the contract does not have: number 1000, the text "x".
var unknown = protowire.AppendString(protowire.AppendTag(nil, 1000, protowire.BytesType), "x")

// configure calls Configure with the next revision; fields are encoded protobuf fields to add to the request.
func (s *session) configure(ctx context.Context, settings []byte, paths HostPaths, limit time.Duration, fields []byte) (*backendv1.ConfigureResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s.mu.Lock()
	s.sent++
	revision := s.sent
	s.mu.Unlock()
	request := &backendv1.ConfigureRequest{
		SettingsJson: settings, Revision: revision,
		Paths: &backendv1.HostPaths{Sysfs: paths.Sysfs, Devfs: paths.Devfs, Procfs: paths.Procfs},
	}
	request.ProtoReflect().SetUnknown(fields)
	answer, err := s.service.Configure(ctx, request)
	if err == nil && len(answer.GetErrors()) == 0 {
		return answer, nil
	}
	s.mu.Lock()
	s.refused[revision] = true
	s.mu.Unlock()
	if err != nil {
		return nil, s.failed("Configure", limit, err)
	}
	return answer, nil
}

// take checks the generation and the settings revision of an inventory.
func (s *session) take(next *backendv1.Inventory) (generation, revision error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch n := next.GetGeneration(); {
	case s.generation == 0 && n != 1:
		generation = fmt.Errorf("the first inventory of the process has the generation %d", n)
	case n < s.generation:
		generation = fmt.Errorf("the generation %d came after %d", n, s.generation)
	}
	s.generation = max(s.generation, next.GetGeneration())
	switch n := next.GetSettingsRevision(); {
	case n == 0 || n > s.sent:
		revision = fmt.Errorf("an inventory has settings_revision %d, which was never sent", n)
	case s.refused[n]:
		revision = fmt.Errorf("an inventory has settings_revision %d, which was refused", n)
	}
	return generation, revision
}

// fieldErrors joins the field errors of a refusal, for a message.
func fieldErrors(answer *backendv1.ConfigureResponse) string {
	var all []string
	for _, e := range answer.GetErrors() {
		all = append(all, strings.TrimPrefix(e.GetField()+": "+e.GetMessage(), ": "))
	}
	return words(all)
}

// health checks the health service.
func health(ctx context.Context, conn *grpc.ClientConn) error {
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: backendplugin.HealthService})
	if err != nil {
		return err
	}
	if answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("the service %q is %s", backendplugin.HealthService, answer.GetStatus())
	}
	return nil
}

// answered reports whether an error is the server's answer, not a failure of the connection.
func answered(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return false
	}
	return true
}

// emptyPaths returns host paths without hardware.
func (c *check) emptyPaths() (HostPaths, error) {
	paths := HostPaths{Sysfs: filepath.Join(c.dir, "sys"), Devfs: filepath.Join(c.dir, "dev"), Procfs: filepath.Join(c.dir, "proc")}
	var failed []error
	for _, dir := range []string{paths.Sysfs, paths.Devfs, paths.Procfs} {
		failed = append(failed, os.MkdirAll(dir, 0o755))
	}
	return paths, errors.Join(failed...)
}
