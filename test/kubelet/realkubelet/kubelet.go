// Package realkubelet drives the device half of a real kubelet, of one of several releases: the
// program ../manager, started, stopped and killed as kubelet is. It stands for what is around
// kubelet on a node: it knows the pods, as the API server does, and which containers run, as the
// container runtime does, and passes both to each new process.
package realkubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/test/devicemanager"
	"github.com/accelmux/accelmux/test/devicemanager/wire"
)

// The topology manager's policies that are used here, and the reason of a pod that it refuses.
const (
	PolicyNone             = "none"
	PolicySingleNUMANode   = "single-numa-node"
	ReasonTopologyAffinity = "TopologyAffinityError"
)

// Options say what kind of node the kubelet believes it is on.
type Options struct {
	// Program is the program manager.
	Program string
	// Policy is the topology manager's; default single-numa-node.
	Policy string
	// APIServer is the address of a [Cluster]; without it the kubelet has no claims.
	APIServer string
	// OtherRoot gives kubelet another --root-dir than New's dir, in which only device-plugins stays; see
	// [Kubelet.Root].
	OtherRoot bool
	// Log takes what kubelet logs. It must be safe for concurrent use.
	Log io.Writer
}

// Kubelet is the device half of the kubelet of a node with two NUMA nodes. Its pods outlive a
// Restart, as containers outlive kubelet. All methods are safe for concurrent use, but Start,
// Stop, Crash and Restart must not overlap each other.
type Kubelet struct {
	dir  string
	opts Options

	mu      sync.Mutex
	pods    map[types.UID]*wire.Running
	run     *devicemanager.Process // nil while stopped
	release string                 // of the last process
}

// New prepares a kubelet whose root is dir, laid out as /var/lib/kubelet. The directory must
// exist; keep it short, for a socket's path has 107 bytes.
func New(dir string, opts Options) *Kubelet {
	if opts.Policy == "" {
		opts.Policy = PolicySingleNUMANode
	}
	return &Kubelet{dir: dir, opts: opts, pods: map[types.UID]*wire.Running{}}
}

// Root is kubelet's root directory.
func (k *Kubelet) Root() string {
	if k.opts.OtherRoot {
		return k.dir + ".root"
	}
	return k.dir
}

// Start starts a process and returns when its device manager, plugin watcher and pod-resources
// server run and the pods that were there before are admitted again. An *AdmissionError is of
// such a pod, which is not on the node any more, as if kubelet had killed it; kubelet runs then.
func (k *Kubelet) Start() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.run != nil {
		return errors.New("kubelet is running already")
	}
	if err := os.MkdirAll(k.Root(), 0o750); err != nil {
		return err
	}
	opts := wire.Options{Dir: k.Root(), PluginDir: filepath.Join(k.dir, "device-plugins"), NUMANodes: 2, Policy: k.opts.Policy, Scope: "container", APIServer: k.opts.APIServer, NodeName: NodeName}
	for _, r := range k.pods {
		opts.Pods = append(opts.Pods, wire.Running{Pod: r.Pod, Containers: maps.Clone(r.Containers)})
	}
	p, err := devicemanager.Start(k.opts.Program, k.opts.Log, opts)
	if err != nil {
		return err
	}
	k.run, k.release = p, p.About().Release
	var refused []error
	for uid, v := range p.About().Refused {
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

// take returns the running process, which is removed; nil if there is none.
func (k *Kubelet) take() *devicemanager.Process {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.run
	k.run = nil
	return p
}

// Stop ends the kubelet by SIGTERM: streams to plugins break, the registration socket goes, the
// checkpoint stays. Stopping a stopped kubelet does nothing.
func (k *Kubelet) Stop() error {
	if p := k.take(); p != nil {
		return p.Stop()
	}
	return nil
}

// Crash ends the kubelet by SIGKILL: the file of the registration socket stays, and nothing
// listens on it. (That of the pod-resources socket always stays.)
func (k *Kubelet) Crash() error {
	if p := k.take(); p != nil {
		return p.Kill()
	}
	return errors.New("kubelet is not running")
}

// Restart stops the kubelet and starts a new one on the same directory. Pods and the checkpoint
// are kept; the device manager's state is what it reads back.
func (k *Kubelet) Restart() error {
	if err := k.Stop(); err != nil {
		return fmt.Errorf("stop kubelet: %w", err)
	}
	return k.Start()
}

// call asks the running kubelet; without one it is an error.
func (k *Kubelet) call(ctx context.Context, method string, request, answer any) error {
	k.mu.Lock()
	p := k.run
	k.mu.Unlock()
	if p == nil {
		return errors.New("kubelet is not running")
	}
	return p.Call(ctx, method, request, answer)
}
