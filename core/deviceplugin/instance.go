package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/accelmux/accelmux/core/config"
)

// maxRequest is the largest request that is taken: kubelet names all available
// devices in GetPreferredAllocation, which can be as long as the list.
const maxRequest = 16 << 20

// window is how many bytes of requests may be on their way. With windows of its own choice
// gRPC measures the way to kubelet: a ping, and its answer, for each call.
const window = 1 << 20

// instance is one server on one socket. Its options never change.
type instance struct {
	pluginapi.UnimplementedDevicePluginServer
	advert  *advert
	kind    config.Registration
	path    string
	kubelet fileID // the kubelet.sock it was made for
	options *pluginapi.DevicePluginOptions
	server  *grpc.Server
	served  chan struct{} // closed when Serve has returned
	muted   chan struct{} // closed when a successor talks to kubelet
	stop    chan struct{} // closed at the end
	calls   *calls

	// Guarded by advert.mu.
	streams  int
	streamed bool // ever
	isMuted  bool
	// idleSince is since when there is no stream, openedAt when the newest was
	// opened.
	idleSince, openedAt time.Time
}

func newInstance(a *advert, kind config.Registration, path string, kubelet fileID, options *pluginapi.DevicePluginOptions) (*instance, error) {
	listener, err := listen(path)
	if err != nil && identify(filepath.Dir(path)) == (fileID{}) {
		return nil, errors.New(noDirectory(filepath.Dir(path)))
	}
	if err != nil {
		// Each attempt has a different path, so an error with the path would be logged each
		// time.
		return nil, fmt.Errorf("create a socket in %s, trying again: %w", filepath.Dir(path), errnoOf(err))
	}
	in := &instance{
		advert: a, kind: kind, path: path, kubelet: kubelet, options: options,
		calls: &calls{answered: a.answered}, idleSince: time.Now(),
		served: make(chan struct{}), muted: make(chan struct{}), stop: make(chan struct{}),
	}
	in.server = grpc.NewServer(grpc.MaxRecvMsgSize(maxRequest), grpc.WaitForHandlers(true), grpc.StatsHandler(in.calls),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(window))
	pluginapi.RegisterDevicePluginServer(in.server, in)
	if kind == config.RegisterWatcher {
		registerapi.RegisterRegistrationServer(in.server, &watcherService{instance: in})
	}
	go func() {
		defer close(in.served)
		// Serve ends when the server stops; if it ends before, kubelet's stream
		// breaks and the instance is replaced.
		_ = in.server.Serve(listener)
	}()
	return in, nil
}

// mute silences the instance if it is older than its successor, which is never
// nil; it reports whether that cut off a stream. advert.mu is held.
func (in *instance) mute(successor *instance) bool {
	if in == successor || in.isMuted {
		return false
	}
	in.isMuted = true
	close(in.muted)
	return in.streams > 0
}

// offers tells whether kubelet was told of all that v needs. Options never change.
func (in *instance) offers(v *view) bool {
	return (in.options.GetPreStartRequired() || !v.preStart) &&
		(in.options.GetGetPreferredAllocationAvailable() || !v.topology.Helps())
}

// servedSince returns how long the newest stream has lasted, or did last, after t; 0 or
// less if it ended before t or there was none. advert.mu is held.
func (in *instance) servedSince(t time.Time) time.Duration {
	if !in.streamed {
		return 0
	}
	end, begin := time.Now(), in.openedAt
	if in.streams == 0 {
		end = in.idleSince
	}
	if t.After(begin) {
		begin = t
	}
	return end.Sub(begin)
}

// errnoOf returns the system's error in err, without the operation and the path; err itself
// if there is none.
func errnoOf(err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno
	}
	return err
}

func (in *instance) isStopped() bool {
	select {
	case <-in.stop:
		return true
	default:
		return false
	}
}

// close removes the socket, lets allocations in progress finish for up to half
// of Timing.Shutdown, then ends the streams. Kubelet hangs up when it sees that,
// so the answers must be written before.
func (in *instance) close() {
	if err := os.Remove(in.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		in.advert.log.Warn("cannot remove the socket", "socket", in.path, "error", err)
	}
	limit, cancel := context.WithTimeout(context.Background(), in.advert.timing.Shutdown/2)
	in.calls.drain(limit)
	cancel()
	close(in.stop)
	// What is written must leave the process: a graceful end, but not for long.
	hurry := time.AfterFunc(in.advert.timing.Shutdown/4, in.server.Stop)
	in.server.GracefulStop()
	hurry.Stop()
	<-in.served
}

// register calls Register. Kubelet dials back and asks for the options before it
// answers.
func (a *advert) register(ctx context.Context, in *instance) error {
	conn, err := grpc.NewClient("passthrough:///kubelet",
		grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", a.plugin.watch.socket)
		}))
	if err != nil {
		return fmt.Errorf("connect to kubelet: %w", err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, a.timing.Register)
	defer cancel()
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: filepath.Base(in.path), ResourceName: a.name, Options: in.options,
	})
	if err != nil {
		return fmt.Errorf("kubelet did not register resource %s; it is tried again: %s", a.name, status.Convert(err).Message())
	}
	return nil
}

// watcherService answers the plugin watcher.
type watcherService struct {
	registerapi.UnimplementedRegistrationServer
	instance *instance
}

// GetInfo says what is on the socket. An instance with a successor says that it
// has one, so that a kubelet that finds both takes the right one.
func (s *watcherService) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	if err := s.instance.refuseIfMuted(); err != nil {
		return nil, err
	}
	return &registerapi.PluginInfo{
		Type: registerapi.DevicePlugin, Name: s.instance.advert.name,
		SupportedVersions: []string{pluginapi.Version},
	}, nil
}

// NotifyRegistrationStatus takes kubelet's verdict. Kubelet tries again by itself.
func (s *watcherService) NotifyRegistrationStatus(_ context.Context, r *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	if !r.GetPluginRegistered() {
		s.instance.advert.fail(fmt.Errorf("kubelet did not register resource %s from %s: %s",
			s.instance.advert.name, s.instance.path, r.GetError()))
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}

func (in *instance) refuseIfMuted() error {
	select {
	case <-in.muted:
		return status.Error(codes.Unavailable, "another socket serves resource "+in.advert.name+" now")
	default:
		return nil
	}
}
