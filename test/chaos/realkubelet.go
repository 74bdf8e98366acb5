package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/test/devicemanager"
)

const (
	// sampleEvery is how often a real kubelet is asked what it knows. What lasts for
	// less long may be missed; it does not tell by itself.
	sampleEvery = 10 * time.Millisecond
	// answerLimit bounds how long it may take to answer what it only looks up.
	answerLimit = 30 * time.Second
)

// realKubelet is the device manager of a real kubelet, as a process. The pods and
// their containers are known here, as they are to the API server and the container
// runtime.
type realKubelet struct {
	program, dir string
	watch        *watch
	log          kubeletLog
	sampling     sync.WaitGroup
	endSampling  context.CancelFunc

	mu      sync.Mutex
	process *devicemanager.Process // nil while stopped
	pods    map[string]*devicemanager.Running
	books   map[string]kubelettest.Allocation // by pod, as kubelet last said
}

// newRealKubelet makes one that runs the program.
func newRealKubelet(program, dir string, w *watch) (*realKubelet, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	k := &realKubelet{
		program: program, dir: dir, watch: w, endSampling: cancel,
		pods: map[string]*devicemanager.Running{}, books: map[string]kubelettest.Allocation{},
	}
	k.sampling.Go(func() { k.sample(ctx) })
	return k, nil
}

// sample tells the watch what kubelet knows, again and again.
func (k *realKubelet) sample(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		epoch := k.watch.now()
		if p := k.running(); p != nil {
			if all, err := p.Resources(ctx); err == nil {
				k.watch.sample(epoch, all)
			}
		}
	}
}

func (k *realKubelet) running() *devicemanager.Process {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.process
}

func (k *realKubelet) PluginDir() string   { return filepath.Join(k.dir, "device-plugins") }
func (k *realKubelet) RegistryDir() string { return filepath.Join(k.dir, "plugins_registry") }
func (k *realKubelet) Forgetful() bool     { return true }
func (k *realKubelet) Log() string         { return k.log.last() }

// Gapless is of 1.37 and later: up to 1.36 the end of any stream of a resource
// disconnects its newest one.
func (k *realKubelet) Gapless() bool {
	var minor int
	p := k.running()
	if p == nil {
		return true
	}
	_, err := fmt.Sscanf(p.About().Release, "v1.%d.", &minor)
	return err == nil && minor >= 37
}

func (k *realKubelet) Start() error {
	opts := devicemanager.Options{Dir: k.dir, NUMANodes: 1, Policy: "none", Scope: "container"}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.process != nil {
		return errors.New("kubelet runs already")
	}
	for _, name := range slices.Sorted(maps.Keys(k.pods)) {
		opts.Pods = append(opts.Pods, *k.pods[name])
	}
	p, err := devicemanager.Start(k.program, &k.log, opts)
	if err != nil {
		return err
	}
	k.process = p
	if refused := p.About().Refused; len(refused) > 0 {
		return fmt.Errorf("kubelet, which was restarted, refuses pods whose containers run: %v", refused)
	}
	return nil
}

// take is the running process, which is nobody's from now on.
func (k *realKubelet) take() *devicemanager.Process {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.process
	k.process = nil
	return p
}

func (k *realKubelet) Stop() error {
	if p := k.take(); p != nil {
		return p.Stop()
	}
	return nil
}

func (k *realKubelet) Kill() error {
	if p := k.take(); p != nil {
		return p.Kill()
	}
	return nil
}

func (k *realKubelet) Restart() error {
	if err := k.Stop(); err != nil {
		return err
	}
	return k.Start()
}

// Close ends it, and that it is asked.
func (k *realKubelet) Close() error {
	k.endSampling()
	k.sampling.Wait()
	return k.Stop()
}

func (k *realKubelet) Allocate(ctx context.Context, name, resource string, count int) (*kubelettest.Allocation, error) {
	p := k.running()
	if p == nil {
		return nil, errors.New("kubelet does not run")
	}
	pod := newPod(name, resource, count)
	verdict, err := p.Admit(ctx, pod)
	if err != nil {
		return nil, err
	}
	if !verdict.Admitted {
		return nil, fmt.Errorf("%s: %s", verdict.Reason, verdict.Message)
	}
	k.mu.Lock()
	k.pods[name] = &devicemanager.Running{Pod: pod, Containers: map[string]string{}}
	k.mu.Unlock()
	// Without a plugin ever, the resource is none of the device manager's: there the rest
	// of kubelet refuses the pod, for the node has nothing of it.
	held, err := p.Devices(ctx, name, containerName)
	if err == nil && len(held[resource]) == 0 {
		err = fmt.Errorf("kubelet knows of no %s", resource)
	}
	if err != nil {
		k.Free(name)
		return nil, err
	}
	a, err := k.checkpointed(ctx, name)
	if err != nil {
		k.Free(name)
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.books[name] = *a
	return a, nil
}

func newPod(name, of string, count int) *v1.Pod {
	list := v1.ResourceList{v1.ResourceName(of): *resource.NewQuantity(int64(count), resource.DecimalSI)}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: containerName, Resources: v1.ResourceRequirements{Limits: list, Requests: list}}}},
	}
}

// checkpoint is the device manager's file kubelet_internal_checkpoint, as
// k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint has it.
type checkpoint struct {
	Data struct {
		PodDeviceEntries []struct {
			PodUID, ResourceName string
			DeviceIDs            map[string][]string // by NUMA node
			AllocResp            []byte
		}
	}
}

// checkpointed is what a pod was given: the plugin's answer is nowhere else. Kubelet
// has written it when it answers, but another list may be written at that moment.
func (k *realKubelet) checkpointed(ctx context.Context, pod string) (*kubelettest.Allocation, error) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(filepath.Join(k.PluginDir(), "kubelet_internal_checkpoint"))
		if err != nil {
			return nil, err
		}
		var c checkpoint
		if err := json.Unmarshal(text, &c); err != nil {
			return nil, fmt.Errorf("kubelet's checkpoint: %w", err)
		}
		for _, e := range c.Data.PodDeviceEntries {
			if e.PodUID != pod {
				continue
			}
			a := &kubelettest.Allocation{
				Pod: pod, Container: containerName, Resource: e.ResourceName,
				Devices:  slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(e.DeviceIDs))...))),
				Response: &pluginapi.ContainerAllocateResponse{},
			}
			return a, proto.Unmarshal(e.AllocResp, a.Response)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("kubelet has admitted %s, and its checkpoint has nothing of it: %w", pod, ctx.Err())
		case <-tick.C:
		}
	}
}

func (k *realKubelet) StartContainer(ctx context.Context, pod string) error {
	p := k.running()
	if p == nil {
		return errors.New("kubelet does not run")
	}
	id := "cri://" + pod
	if err := p.StartContainer(ctx, pod, containerName, id); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods[pod].Containers[containerName] = id
	return nil
}

func (k *realKubelet) Free(pod string) {
	k.mu.Lock()
	p := k.process
	delete(k.pods, pod)
	delete(k.books, pod)
	k.mu.Unlock()
	if p != nil { // the next one does not hear of it
		ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
		defer cancel()
		_ = p.RemovePod(ctx, pod)
	}
}

// Mortal are pods whose container did not start yet: a kubelet that starts admits only
// those again whose containers run, as no plugin has registered by then.
func (k *realKubelet) Mortal() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var waiting []string
	for _, name := range slices.Sorted(maps.Keys(k.pods)) {
		if len(k.pods[name].Containers) == 0 {
			waiting = append(waiting, name)
		}
	}
	return waiting
}

// Allocations are what kubelet says, or what it said last if it does not run.
func (k *realKubelet) Allocations() []kubelettest.Allocation {
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []kubelettest.Allocation
	for _, name := range slices.Sorted(maps.Keys(k.pods)) {
		a := k.books[name]
		if k.process != nil {
			if held, err := k.process.Devices(ctx, name, containerName); err == nil {
				a.Devices = held[a.Resource]
				k.books[name] = a
			}
		}
		all = append(all, a)
	}
	return all
}

func (k *realKubelet) Seen() *kubeletSeen {
	p := k.running()
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	all, err := p.Resources(ctx)
	if err != nil {
		return nil
	}
	sockets := connected(k.dir)
	seen := &kubeletSeen{Resources: map[string]resourceSeen{}, Duplicates: k.log.duplicates(), Connections: len(sockets)}
	for name, r := range all {
		of := resourceSeen{Healthy: r.Healthy, Unhealthy: r.Unhealthy}
		prefix := socketPrefix + strings.ReplaceAll(name, "/", "_") + "-"
		if !slices.ContainsFunc(sockets, func(s string) bool { return strings.HasPrefix(s, prefix) }) {
			of = resourceSeen{Orphaned: slices.Concat(r.Healthy, r.Unhealthy)}
		}
		seen.Resources[name] = of
	}
	return seen
}

// socketPrefix begins the names by which the agent listens: those without the dot get
// visible when all is ready.
const socketPrefix = ".accelmux-"

// connected are the names of the sockets under dir to which somebody is connected:
// nobody but kubelet connects to plugins.
func connected(dir string) []string {
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil
	}
	names := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		// Num RefCount Protocol Flags Type St Inode Path; of a connection that was
		// accepted St is 03, and the path is that of the socket which listens.
		fields := strings.Fields(line)
		if len(fields) != 8 || fields[5] != "03" || !strings.HasPrefix(fields[7], dir+"/") {
			continue
		}
		if name := filepath.Base(fields[7]); strings.HasPrefix(name, socketPrefix) {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// kubeletLog keeps the last of what kubelet logs, and counts what matters.
type kubeletLog struct {
	mu    sync.Mutex
	rest  []byte // of a line
	lines []string
	twice int
}

// keptLines is how many lines are kept.
const keptLines = 60

func (l *kubeletLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		l.rest = rest
		// It is logged where the connection is made, and once more where the
		// registration is refused.
		if bytes.Contains(line, []byte("Failed to connect to new client")) && bytes.Contains(line, []byte("device plugin already connected")) {
			l.twice++
		}
		if l.lines = append(l.lines, string(line)); len(l.lines) > keptLines {
			l.lines = l.lines[1:]
		}
	}
}

func (l *kubeletLog) duplicates() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.twice
}

func (l *kubeletLog) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}
