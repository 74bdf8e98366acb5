package realkubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	registrationapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager"
)

// Options say what kind of node the kubelet believes it is on.
type Options struct {
	// NUMANodes is how many NUMA nodes the machine has, whatever the real one
	// has. Default 1; at most 8, the topology manager's own limit.
	NUMANodes int
	// Policy is the topology manager's; default single-numa-node.
	Policy string
	// Scope is the topology manager's; default container.
	Scope string
	// Log takes what the managers log through their context. Default: klog's own.
	Log *klog.Logger
}

// Kubelet is the device half of one node's kubelet. Its pods outlive a Restart,
// as containers outlive kubelet. All methods are safe for concurrent use,
// but Start, Stop and Restart must not overlap each other.
type Kubelet struct {
	dir  string
	opts Options
	log  klog.Logger

	mu   sync.Mutex
	pods map[types.UID]*running
	run  *session // nil while stopped

	// admission is kubelet's one sync loop: pods are admitted one at a time.
	admission sync.Mutex
}

// session is what one kubelet process holds; a restart makes a new one.
type session struct {
	devices  *devicemanager.ManagerImpl
	topology topologymanager.Manager
	sources  *sources
	grpc     *grpc.Server
	cancel   context.CancelFunc
	done     sync.WaitGroup
}

// New prepares a kubelet whose root is dir, laid out as /var/lib/kubelet. The
// directory must exist; keep it short, for a socket's path has 107 bytes.
func New(dir string, opts Options) *Kubelet {
	if opts.NUMANodes == 0 {
		opts.NUMANodes = 1
	}
	if opts.Policy == "" {
		opts.Policy = topologymanager.PolicySingleNumaNode
	}
	if opts.Scope == "" {
		opts.Scope = topologymanager.ContainerTopologyScope
	}
	log := klog.Background()
	if opts.Log != nil {
		log = *opts.Log
	}
	return &Kubelet{dir: dir, opts: opts, log: log, pods: map[types.UID]*running{}}
}

// PluginDir is where device plugins register.
func (k *Kubelet) PluginDir() string { return filepath.Join(k.dir, "device-plugins") }

// RegistryDir is where the plugin watcher looks for sockets.
func (k *Kubelet) RegistryDir() string { return filepath.Join(k.dir, "plugins_registry") }

// PodResourcesSocket is where the pod-resources API is served.
func (k *Kubelet) PodResourcesSocket() string {
	return filepath.Join(k.dir, "pod-resources", "kubelet.sock")
}

// CheckpointFile is where the device manager keeps its allocations.
func (k *Kubelet) CheckpointFile() string {
	return filepath.Join(k.PluginDir(), "kubelet_internal_checkpoint")
}

// Start brings the kubelet up in kubelet's order: the device manager (which
// deletes every socket in its directory and reads the checkpoint), the plugin
// watcher, the pod-resources server; then the pods that were there before are
// admitted again, and only then its sources count as ready.
func (k *Kubelet) Start() (err error) {
	k.mu.Lock()
	started := k.run != nil
	k.mu.Unlock()
	if started {
		return errors.New("kubelet is running already")
	}
	s := &session{sources: &sources{}}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), k.log))
	s.cancel = cancel
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop(k.log))
		}
	}()
	if err := k.startDevices(s); err != nil {
		return err
	}
	k.startPluginWatcher(ctx, s)
	if err := k.servePodResources(ctx, s); err != nil {
		return err
	}
	k.mu.Lock()
	k.run = s
	k.mu.Unlock()
	if err := k.readmit(ctx, s); err != nil {
		k.mu.Lock()
		k.run = nil
		k.mu.Unlock()
		return err
	}
	s.sources.ready.Store(true)
	return nil
}

func (k *Kubelet) startDevices(s *session) error {
	if err := os.MkdirAll(k.PluginDir(), 0o750); err != nil {
		return err
	}
	nodes := make([]cadvisorapi.Node, k.opts.NUMANodes)
	for i := range nodes {
		nodes[i].Id = i
	}
	var err error
	s.topology, err = topologymanager.NewManager(k.log, nodes, k.opts.Policy, k.opts.Scope, nil)
	if err != nil {
		return fmt.Errorf("make topology manager: %w", err)
	}
	manager, err := newManagerImpl(k.log, filepath.Join(k.PluginDir(), "kubelet.sock"), nodes, s.topology)
	if err != nil {
		return fmt.Errorf("make device manager: %w", err)
	}
	s.topology.AddHintProvider(k.log, manager)
	containers, ids := k.runningContainers()
	if err := manager.Start(k.log, k.activePods, s.sources, containers, ids); err != nil {
		return fmt.Errorf("start device manager: %w", err)
	}
	s.devices = manager
	return nil
}

func (k *Kubelet) startPluginWatcher(ctx context.Context, s *session) {
	watcher := pluginmanager.NewPluginManager(k.RegistryDir(), &record.FakeRecorder{})
	watcher.AddHandler(registrationapi.DevicePlugin, s.devices.GetWatcherHandler())
	s.done.Go(func() { watcher.Run(ctx, s.sources, ctx.Done()) })
}

// Stop ends the kubelet as SIGTERM does: streams to plugins break, its sockets
// go, the checkpoint stays. Stopping a stopped kubelet does nothing.
func (k *Kubelet) Stop() error {
	k.mu.Lock()
	s := k.run
	k.run = nil
	k.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.stop(k.log)
}

// Crash is Stop as SIGKILL does it: the file of the registration socket stays,
// and nobody answers on it. (That of the pod-resources socket always stays.)
func (k *Kubelet) Crash() error {
	if err := k.Stop(); err != nil {
		return err
	}
	path := filepath.Join(k.PluginDir(), "kubelet.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("leave a dead socket: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	return listener.Close()
}

func (s *session) stop(log klog.Logger) error {
	s.cancel()
	if s.grpc != nil {
		s.grpc.Stop()
	}
	var err error
	if s.devices != nil {
		err = s.devices.Stop(log)
	}
	s.done.Wait()
	return err
}

// Restart stops the kubelet and starts a new one on the same directory. Pods
// and the checkpoint are kept; the device manager's state is what it reads back.
func (k *Kubelet) Restart() error {
	if err := k.Stop(); err != nil {
		return fmt.Errorf("stop kubelet: %w", err)
	}
	return k.Start()
}

// session returns the running one, or an error that says there is none.
func (k *Kubelet) session() (*session, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.run == nil {
		return nil, errors.New("kubelet is not running")
	}
	return k.run, nil
}

// activePods is what the device manager takes for the pods of the node.
func (k *Kubelet) activePods() []*v1.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	pods := make([]*v1.Pod, 0, len(k.pods))
	for _, r := range k.pods {
		pods = append(pods, r.pod)
	}
	return pods
}
