package kubelettest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Options change how a stand-in behaves. The zero value is kubelet 1.37.
type Options struct {
	// Legacy selects the connection handling of releases up to 1.36: one
	// connection a resource is known, a second one to the same socket is
	// accepted, and the end of any stream disconnects the newest connection.
	Legacy bool
	// OnEvent is called with every event, one at a time and in order. It must
	// not block and must not call the stand-in.
	OnEvent func(Event)
	// OnDevices is called with every list that a plugin sends, before the OnEvent of
	// it and under the same rules. It must not keep or change the list.
	OnDevices func(resource string, devices []*pluginapi.Device)
	// Log gets the stand-in's logs; nil discards them.
	Log *slog.Logger
	// Timing is for tests; the zero value is kubelet's.
	Timing Timing
}

// Kubelet's time limits.
const (
	// infoTimeout and notifyTimeout are those of GetInfo and NotifyRegistrationStatus, by
	// which the plugin watcher registers.
	infoTimeout, notifyTimeout = time.Second, 5 * time.Second
	// claimTimeout is that of a DRA driver's calls (pkg/kubelet/cm/dra/plugin).
	claimTimeout    = 45 * time.Second
	preStartTimeout = pluginapi.KubeletPreStartContainerRPCTimeoutInSecs * time.Second
	// stopGrace is how long a resource without a connection stays.
	stopGrace = 5 * time.Minute
)

// Timing are kubelet's intervals. A zero field is kubelet's own value.
type Timing struct {
	// Dial is how long a dial to a plugin may take. Default 10s.
	Dial time.Duration
	// Reconcile is the interval of the plugin watcher. Default 1s.
	Reconcile time.Duration
	// RegisterBackoff is the pause after a failed registration by the plugin
	// watcher; it doubles up to 2 minutes. Default 500ms.
	RegisterBackoff time.Duration
}

func (t Timing) withDefaults() Timing {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&t.Dial, 10 * time.Second},
		{&t.Reconcile, time.Second},
		{&t.RegisterBackoff, 500 * time.Millisecond},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return t
}

// Kubelet is a stand-in kubelet. Its methods may be called from any goroutine.
type Kubelet struct {
	dir    string
	opts   Options
	log    *slog.Logger
	timing Timing

	// lifecycle makes Start, Stop, Kill and Restart exclusive.
	lifecycle sync.Mutex
	// events makes the calls of Options.OnEvent ordered; taken before mu is
	// released, so that the order is that of the changes.
	events sync.Mutex

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every change
	process *process      // nil while stopped
	// What the checkpoint keeps over a restart.
	pods       map[string]map[string]map[string]*allocation // pod, container, resource
	registered map[string]struct{}
	claims     map[string][]claimDevices // by pod
	// What a restart forgets.
	manager manager
	drivers map[string]string // DRA drivers' endpoints
	counts  Counts
}

// process is one life of the stand-in, from Start to Stop.
type process struct {
	ctx     context.Context
	cancel  context.CancelFunc
	servers []*grpc.Server
	sockets []*net.UnixListener
	wg      sync.WaitGroup
}

// New makes a stand-in whose root directory (/var/lib/kubelet on a node) is dir.
// It does nothing until Start.
func New(dir string, opts Options) *Kubelet {
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Kubelet{
		dir: dir, opts: opts, log: log, timing: opts.Timing.withDefaults(),
		changed:    make(chan struct{}),
		pods:       map[string]map[string]map[string]*allocation{},
		registered: map[string]struct{}{},
		claims:     map[string][]claimDevices{},
		manager:    newManager(),
		drivers:    map[string]string{},
	}
}

// PluginDir is the directory of device plugin sockets.
func (k *Kubelet) PluginDir() string { return filepath.Join(k.dir, "device-plugins") }

// RegistryDir is the directory that the plugin watcher watches.
func (k *Kubelet) RegistryDir() string { return filepath.Join(k.dir, "plugins_registry") }

// PodResourcesSocket is where the pod-resources API is served.
func (k *Kubelet) PodResourcesSocket() string {
	return filepath.Join(k.dir, "pod-resources", "kubelet.sock")
}

// Start creates the directories, deletes the sockets in PluginDir and serves.
func (k *Kubelet) Start() error {
	k.lifecycle.Lock()
	defer k.lifecycle.Unlock()
	return k.start()
}

func (k *Kubelet) start() (err error) {
	if k.State().Running {
		return errors.New("the stand-in kubelet runs already")
	}
	for _, dir := range []string{k.PluginDir(), k.RegistryDir(), filepath.Dir(k.PodResourcesSocket())} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return fmt.Errorf("create kubelet's directories: %w", err)
		}
	}
	if err := removeSockets(k.PluginDir()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{ctx: ctx, cancel: cancel}
	defer func() {
		if err != nil {
			p.stop(false)
		}
	}()
	k.update(Event{Type: EventStarted}, func() {
		k.manager = newManager()
		for resource := range k.registered {
			k.manager.restore(resource)
		}
		k.process = p
	})
	defer func() {
		if err != nil {
			k.update(Event{Type: EventStopped}, func() { k.process = nil })
		}
	}()
	registration := grpc.NewServer()
	pluginapi.RegisterRegistrationServer(registration, &registrationServer{kubelet: k, process: p})
	if err := p.serve(registration, filepath.Join(k.PluginDir(), "kubelet.sock")); err != nil {
		return err
	}
	lister := grpc.NewServer()
	podresourcesapi.RegisterPodResourcesListerServer(lister, &podResourcesServer{kubelet: k})
	if err := os.Remove(k.PodResourcesSocket()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the old pod-resources socket: %w", err)
	}
	if err := p.serve(lister, k.PodResourcesSocket()); err != nil {
		return err
	}
	w := newWatcher(k, p)
	p.wg.Go(w.run)
	return nil
}

// Stop ends the stand-in as SIGTERM ends kubelet: its sockets are removed, its
// connections closed. Allocations stay. It does nothing if the stand-in is stopped.
func (k *Kubelet) Stop() {
	k.lifecycle.Lock()
	defer k.lifecycle.Unlock()
	k.stop(true)
}

// Kill ends the stand-in as SIGKILL ends kubelet: the socket files stay, and
// refuse connections.
func (k *Kubelet) Kill() {
	k.lifecycle.Lock()
	defer k.lifecycle.Unlock()
	k.stop(false)
}

// Restart is Stop and Start.
func (k *Kubelet) Restart() error {
	k.lifecycle.Lock()
	defer k.lifecycle.Unlock()
	k.stop(true)
	return k.start()
}

func (k *Kubelet) stop(unlink bool) {
	var p *process
	k.mu.Lock()
	p = k.process
	k.mu.Unlock()
	if p == nil {
		return
	}
	p.cancel()
	k.manager.closeAll(&k.mu)
	p.stop(unlink)
	k.update(Event{Type: EventStopped}, func() {
		k.process = nil
		k.manager = newManager()
		clear(k.drivers)
	})
}

func (p *process) serve(server *grpc.Server, path string) error {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("listen as kubelet: %w", err)
	}
	p.servers = append(p.servers, server)
	p.sockets = append(p.sockets, listener)
	p.wg.Go(func() {
		// Serve ends with Stop; there is nothing to do with its error.
		_ = server.Serve(listener)
	})
	return nil
}

func (p *process) stop(unlink bool) {
	p.cancel()
	for _, listener := range p.sockets {
		listener.SetUnlinkOnClose(unlink)
	}
	for _, server := range p.servers {
		server.Stop()
	}
	p.wg.Wait()
}

// removeSockets deletes the top-level sockets of dir; regular files and
// directories stay, as in kubelet's CleanupPluginDirectory.
func removeSockets(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("clean the device plugin directory: %w", err)
	}
	for _, entry := range entries {
		if entry.Type()&fs.ModeSocket == 0 {
			continue
		}
		if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("clean the device plugin directory: %w", err)
		}
	}
	return nil
}
