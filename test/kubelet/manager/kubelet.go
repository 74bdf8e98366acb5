package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	registrationapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager"

	"github.com/accelmux/accelmux/test/kubelet/manager/wire"
)

// kubelet is what one kubelet process holds.
type kubelet struct {
	log  klog.Logger
	opts wire.Options

	devices  *devicemanager.ManagerImpl
	topology topologymanager.Manager
	claims   claims
	sources  sources
	grpc     *grpc.Server
	cancel   context.CancelFunc
	done     sync.WaitGroup

	// starting is held by start, and by end for good.
	starting sync.Mutex

	mu sync.Mutex
	// up is from the end of start on; pods are those of the node.
	up   bool
	pods map[types.UID]*wire.Running

	// admission is kubelet's one sync loop: pods are admitted one at a time.
	admission sync.Mutex
	ending    sync.Once
}

// sources are kubelet's pod sources: not ready until the pods that a restart
// found were admitted again.
type sources struct{ ready atomic.Bool }

func (s *sources) AddSource(string) {}
func (s *sources) AllReady() bool   { return s.ready.Load() }

func (k *kubelet) pluginDir() string {
	return cmp.Or(k.opts.PluginDir, filepath.Join(k.opts.Dir, "device-plugins"))
}

// start brings the kubelet up in kubelet's order: the device manager (which
// deletes every socket in its directory and reads the checkpoint), the DRA manager
// (which deletes the node's ResourceSlices), the plugin watcher, the pod-resources server; then the pods that were there before are
// admitted again, and only then its sources count as ready.
func (k *kubelet) start(opts wire.Options, about *wire.About) error {
	k.starting.Lock()
	defer k.starting.Unlock()
	if k.cancel != nil {
		return errors.New("kubelet was started already")
	}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), k.log))
	k.cancel, k.opts, k.pods = cancel, opts, map[types.UID]*wire.Running{}
	for i := range opts.Pods {
		if opts.Pods[i].Containers == nil {
			opts.Pods[i].Containers = map[string]string{}
		}
		k.pods[opts.Pods[i].Pod.UID] = &opts.Pods[i]
	}
	containers, ids := k.runningContainers()
	if err := k.startDevices(containers, ids); err != nil {
		return err
	}
	if err := k.startClaims(ctx); err != nil {
		return fmt.Errorf("start DRA manager: %w", err)
	}
	k.startPluginWatcher(ctx)
	if err := k.servePodResources(ctx); err != nil {
		return err
	}
	for _, pod := range k.activePods() {
		if v := k.admitNow(ctx, pod); !v.Admitted {
			about.Refused[string(pod.UID)] = v
			k.remove(pod.UID)
		}
	}
	k.sources.ready.Store(true)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.up = true
	return nil
}

func (k *kubelet) startDevices(containers containermap.ContainerMap, ids map[string]sets.Empty) (err error) {
	if err := os.MkdirAll(k.pluginDir(), 0o750); err != nil {
		return err
	}
	nodes := make([]numaNode, k.opts.NUMANodes)
	for i := range nodes {
		nodes[i].Id = i
	}
	if k.topology, err = newTopologyManager(k.log, nodes, k.opts.Policy, k.opts.Scope); err != nil {
		return fmt.Errorf("make topology manager: %w", err)
	}
	manager, err := newDeviceManager(k.log, filepath.Join(k.pluginDir(), "kubelet.sock"), nodes, k.topology)
	if err != nil {
		return fmt.Errorf("make device manager: %w", err)
	}
	k.devices = manager
	k.addHints()
	if err := k.startManager(containers, ids); err != nil {
		return fmt.Errorf("start device manager: %w", err)
	}
	return nil
}

func (k *kubelet) startPluginWatcher(ctx context.Context) {
	watcher := pluginmanager.NewPluginManager(filepath.Join(k.opts.Dir, "plugins_registry"), &record.FakeRecorder{})
	watcher.AddHandler(registrationapi.DevicePlugin, k.devices.GetWatcherHandler())
	k.watchDrivers(watcher)
	k.done.Add(1)
	go func() {
		defer k.done.Done()
		runWatcher(ctx, watcher, &k.sources)
	}()
}

// servePodResources is kubelet's server.ListenAndServePodResources, which ends
// the process on an error and never returns.
func (k *kubelet) servePodResources(ctx context.Context) error {
	path := filepath.Join(k.opts.Dir, "pod-resources", "kubelet.sock")
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("listen for pod-resources: %w", err)
	}
	listener.SetUnlinkOnClose(false) // kubelet renames it into place, and so leaves it
	k.grpc = newPodResources(ctx, k)
	k.done.Add(1)
	go func() {
		defer k.done.Done()
		if err := k.grpc.Serve(listener); err != nil {
			k.log.Error(err, "Pod-resources server ended")
		}
	}()
	return nil
}

// end ends the process as SIGTERM does: streams to plugins break, the registration
// socket goes, the checkpoint stays.
func (k *kubelet) end() {
	k.ending.Do(func() {
		time.AfterFunc(time.Minute, func() {
			k.log.Info("Kubelet does not end")
			os.Exit(1) //nolint:forbidigo // a kubelet that hangs is ended by itself
		})
		k.starting.Lock()
		code := 0
		if k.cancel != nil {
			k.cancel()
		}
		if k.grpc != nil {
			k.grpc.Stop()
		}
		if k.devices != nil {
			if err := k.stopManager(); err != nil {
				k.log.Error(err, "Stop device manager")
				code = 1
			}
		}
		k.done.Wait()
		os.Exit(code) //nolint:forbidigo // the end of the process is what is asked for
	})
	select {} // until the process is gone
}

// activePods is what the device manager takes for the pods of the node.
func (k *kubelet) activePods() []*v1.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	pods := make([]*v1.Pod, 0, len(k.pods))
	for _, r := range k.pods {
		pods = append(pods, r.Pod)
	}
	return pods
}

// runningContainers is what kubelet learns from the container runtime when it
// starts: by these it tells its own restart from a reboot of the node.
func (k *kubelet) runningContainers() (containermap.ContainerMap, map[string]sets.Empty) {
	containers, ids := containermap.NewContainerMap(), map[string]sets.Empty{}
	for uid, r := range k.pods {
		for name, id := range r.Containers {
			containers.Add(string(uid), name, id)
			ids[id] = sets.Empty{}
		}
	}
	return containers, ids
}
