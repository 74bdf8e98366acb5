package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/kubeletdir"
)

// maxRequest is the size of the largest request that is accepted, in bytes: kubelet lists all
// available devices in GetPreferredAllocation, which can be as long as the list.
const maxRequest = 16 << 20

// window is gRPC's flow control window, in bytes. With the default, gRPC estimates the
// bandwidth, which costs a ping and its answer for each call.
const window = 1 << 20

// instance is one gRPC server on one socket. Its options never change.
type instance struct {
	pluginapi.UnimplementedDevicePluginServer
	advert  *advert
	kind    config.Registration
	path    string
	kubelet kubeletdir.FileID // the kubelet.sock that it was registered with
	options *pluginapi.DevicePluginOptions
	server  *grpc.Server
	served  chan struct{} // closed when Serve has returned
	// superseded is closed when kubelet opens a stream of a successor.
	superseded chan struct{}
	stop       chan struct{} // closed when the instance is closed
	calls      *calls

	// Guarded by advert.mu.
	streams      int
	streamed     bool // whether there ever was a stream
	isSuperseded bool
	// idleSince is when the last stream ended or, before the first, when kubelet could connect;
	// openedAt is when the newest stream was opened.
	idleSince, openedAt time.Time
}

func newInstance(a *advert, kind config.Registration, path string, kubelet kubeletdir.FileID, options *pluginapi.DevicePluginOptions) (*instance, error) {
	listener, err := listen(path)
	if err != nil && kubeletdir.Identify(filepath.Dir(path)) == (kubeletdir.FileID{}) {
		return nil, errors.New(noDirectory(filepath.Dir(path)))
	}
	if err != nil {
		// Each attempt has a different path: an error with the path would be logged each time.
		return nil, fmt.Errorf("create a socket in %s, trying again: %w", filepath.Dir(path), errnoOf(err))
	}
	in := &instance{
		advert: a, kind: kind, path: path, kubelet: kubelet, options: options,
		calls: &calls{answered: a.answered}, idleSince: time.Now(),
		served: make(chan struct{}), superseded: make(chan struct{}), stop: make(chan struct{}),
	}
	in.server = grpc.NewServer(grpc.MaxRecvMsgSize(maxRequest), grpc.WaitForHandlers(true), grpc.StatsHandler(in.calls),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(window))
	pluginapi.RegisterDevicePluginServer(in.server, in)
	if kind == config.RegisterWatcher {
		registerapi.RegisterRegistrationServer(in.server, &watcherService{instance: in})
	}
	go func() {
		defer close(in.served)
		// If Serve fails before the server is stopped, kubelet's stream breaks and the
		// instance is replaced.
		_ = in.server.Serve(listener)
	}()
	return in, nil
}

// supersede ends the lists of the instance, unless it is the successor itself, and reports
// whether it had a stream. The caller holds advert.mu.
func (in *instance) supersede(successor *instance) bool {
	if in == successor || in.isSuperseded {
		return false
	}
	in.isSuperseded = true
	close(in.superseded)
	return in.streams > 0
}

// offers reports whether the instance's options include all that v needs. Kubelet starts no
// container with devices of a resource that another API serves while the option PreStartRequired is
// offered (see package round).
func (in *instance) offers(v *view) bool {
	if v.withheld && !v.preStart && in.options.GetPreStartRequired() {
		return false
	}
	return (in.options.GetPreStartRequired() || !v.preStart) &&
		(in.options.GetGetPreferredAllocationAvailable() || !v.topology.Helps())
}

// servedSince returns how long the newest stream has lasted, or lasted, after t; 0 or less if
// it ended before t or there was none. The caller holds advert.mu.
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

// errnoOf returns the errno in err, without the operation and the path, or err if it has
// none.
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

// close removes the socket, waits up to half of Timing.Shutdown for calls in progress, then
// ends the streams. Kubelet closes its connection when a stream ends, so the answers must be
// written before.
func (in *instance) close() {
	if err := os.Remove(in.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		in.advert.log.Warn("cannot remove the socket", "socket", in.path, "error", err)
	}
	limit, cancel := context.WithTimeout(context.Background(), in.advert.timing.Shutdown/2)
	in.calls.drain(limit)
	cancel()
	close(in.stop)
	// GracefulStop flushes what is written; Stop bounds it.
	hurry := time.AfterFunc(in.advert.timing.Shutdown/4, in.server.Stop)
	in.server.GracefulStop()
	hurry.Stop()
	<-in.served
}

// register calls Register. Kubelet connects to the instance and gets its options before it
// answers.
func (a *advert) register(ctx context.Context, in *instance) error {
	conn, err := kubeletdir.Connect(a.plugin.watch.socket)
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

// watcherService answers kubelet's plugin watcher.
type watcherService struct {
	registerapi.UnimplementedRegistrationServer
	instance *instance
}

// GetInfo returns the resource that the socket serves. A superseded instance fails, so that
// a kubelet that finds both sockets registers the successor.
func (s *watcherService) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	if err := s.instance.refuseIfSuperseded(); err != nil {
		return nil, err
	}
	return &registerapi.PluginInfo{
		Type: registerapi.DevicePlugin, Name: s.instance.advert.name,
		SupportedVersions: []string{pluginapi.Version},
	}, nil
}

// NotifyRegistrationStatus is called with the result of a registration. Kubelet tries again on
// its own.
func (s *watcherService) NotifyRegistrationStatus(_ context.Context, r *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	if !r.GetPluginRegistered() {
		s.instance.advert.fail(fmt.Errorf("kubelet did not register resource %s from %s: %s",
			s.instance.advert.name, s.instance.path, r.GetError()))
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}

func (in *instance) refuseIfSuperseded() error {
	select {
	case <-in.superseded:
		return status.Error(codes.Unavailable, "another socket serves resource "+in.advert.name+" now")
	default:
		return nil
	}
}
