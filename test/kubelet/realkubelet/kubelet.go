package realkubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/test/kubelet/wire"
)

// The topology manager's policies that are used here, its scope, and the reason of a
// pod that it refuses.
const (
	PolicyNone             = "none"
	PolicySingleNUMANode   = "single-numa-node"
	ScopeContainer         = "container"
	ReasonTopologyAffinity = "TopologyAffinityError"
)

// Options say what kind of node the kubelet believes it is on.
type Options struct {
	// Program is the program manager, as [Program] returns it. Required.
	Program string
	// NUMANodes is how many NUMA nodes the machine has, whatever the real one
	// has. Default 1; at most 8, the topology manager's own limit.
	NUMANodes int
	// Policy is the topology manager's; default single-numa-node.
	Policy string
	// Scope is the topology manager's; default container.
	Scope string
	// Log takes what kubelet logs; nil discards. It must be safe for concurrent use.
	Log io.Writer
}

// Kubelet is the device half of one node's kubelet. Its pods outlive a Restart,
// as containers outlive kubelet. All methods are safe for concurrent use,
// but Start, Stop, Crash and Restart must not overlap each other.
type Kubelet struct {
	dir  string
	opts Options

	mu      sync.Mutex
	pods    map[types.UID]*wire.Running
	run     *process // nil while stopped
	release string   // of the last process
}

// New prepares a kubelet whose root is dir, laid out as /var/lib/kubelet. The
// directory must exist; keep it short, for a socket's path has 107 bytes.
func New(dir string, opts Options) *Kubelet {
	if opts.NUMANodes == 0 {
		opts.NUMANodes = 1
	}
	if opts.Policy == "" {
		opts.Policy = PolicySingleNUMANode
	}
	if opts.Scope == "" {
		opts.Scope = ScopeContainer
	}
	return &Kubelet{dir: dir, opts: opts, pods: map[types.UID]*wire.Running{}}
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

// Start starts a process and returns when its device manager, plugin watcher and
// pod-resources server run and the pods that were there before are admitted again.
// An *AdmissionError is of such a pod, which is not on the node any more, as if
// kubelet had killed it; kubelet runs then.
func (k *Kubelet) Start() error {
	k.mu.Lock()
	started := k.run != nil
	opts := wire.Options{Dir: k.dir, NUMANodes: k.opts.NUMANodes, Policy: k.opts.Policy, Scope: k.opts.Scope}
	for _, r := range k.pods {
		opts.Pods = append(opts.Pods, wire.Running{Pod: r.Pod, Containers: maps.Clone(r.Containers)})
	}
	k.mu.Unlock()
	if started {
		return errors.New("kubelet is running already")
	}
	p, err := spawn(k.opts.Program, k.opts.Log, opts)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.run, k.release = p, p.about.Release
	var refused []error
	for uid, v := range p.about.Refused {
		if r, ok := k.pods[types.UID(uid)]; ok {
			refused = append(refused, fmt.Errorf("pod %s, which was there before, is refused: %w", r.Pod.Name, &AdmissionError{v.Reason, v.Message}))
			delete(k.pods, types.UID(uid))
		}
	}
	return errors.Join(refused...)
}

// Release is that of the kubelet that was last started, such as v1.37.1.
func (k *Kubelet) Release() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.release
}

// PID is the running process's; 0 without one.
func (k *Kubelet) PID() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.run == nil {
		return 0
	}
	return k.run.cmd.Process.Pid
}

// take returns the running process, which is nobody's from now on; nil if there is
// none.
func (k *Kubelet) take() *process {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.run
	k.run = nil
	return p
}

// Stop ends the kubelet by SIGTERM: streams to plugins break, the registration
// socket goes, the checkpoint stays. Stopping a stopped kubelet does nothing.
func (k *Kubelet) Stop() error {
	if p := k.take(); p != nil {
		return p.stop()
	}
	return nil
}

// Crash ends the kubelet by SIGKILL: the file of the registration socket stays, and
// nobody answers on it. (That of the pod-resources socket always stays.)
func (k *Kubelet) Crash() error {
	if p := k.take(); p != nil {
		return p.kill()
	}
	return errors.New("kubelet is not running")
}

// Restart stops the kubelet and starts a new one on the same directory. Pods
// and the checkpoint are kept; the device manager's state is what it reads back.
func (k *Kubelet) Restart() error {
	if err := k.Stop(); err != nil {
		return fmt.Errorf("stop kubelet: %w", err)
	}
	return k.Start()
}

// Become is Restart with the program of another release.
func (k *Kubelet) Become(program string) error {
	if err := k.Stop(); err != nil {
		return fmt.Errorf("stop kubelet: %w", err)
	}
	k.opts.Program = program
	return k.Start()
}

// ask asks the running kubelet; without one it is an error.
func (k *Kubelet) ask(ctx context.Context, method string, request, answer any) error {
	k.mu.Lock()
	p := k.run
	k.mu.Unlock()
	if p == nil {
		return errors.New("kubelet is not running")
	}
	return p.call(ctx, method, request, answer)
}

// Pods are those of the node, in no order; they outlive kubelet.
func (k *Kubelet) Pods() []*v1.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	pods := make([]*v1.Pod, 0, len(k.pods))
	for _, r := range k.pods {
		pods = append(pods, r.Pod)
	}
	return pods
}
