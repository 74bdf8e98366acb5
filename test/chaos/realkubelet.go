package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/test/devicemanager"
	"github.com/accelmux/accelmux/test/devicemanager/wire"
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
	// minor is that of its release, apiServer the address of the API server.
	minor       int
	apiServer   string
	watch       *watch
	log         kubeletLog
	sampling    sync.WaitGroup
	endSampling context.CancelFunc

	mu      sync.Mutex
	process *devicemanager.Process // nil while stopped
	pods    map[string]*wire.Running
	// claimPods are those with claims; no other pod has one.
	claimPods map[string]*wire.Running
	books     map[string]kubelettest.Allocation // by pod, as kubelet last said
}

// newRealKubelet makes one that runs the program.
func newRealKubelet(ctx context.Context, program, dir, apiServer string, w *watch) (*realKubelet, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	k := &realKubelet{
		program: program, dir: dir, apiServer: apiServer, watch: w,
		pods: map[string]*wire.Running{}, claimPods: map[string]*wire.Running{}, books: map[string]kubelettest.Allocation{},
	}
	release, err := exec.CommandContext(ctx, program, "-release").Output()
	if err == nil {
		_, err = fmt.Sscanf(string(release), "v1.%d.", &k.minor)
	}
	if err != nil {
		return nil, fmt.Errorf("ask %s for its release: %w", program, err)
	}
	ctx, k.endSampling = context.WithCancel(context.Background())
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
func (k *realKubelet) Gapless() bool { return k.minor >= 37 }

func (k *realKubelet) Start() error {
	opts := wire.Options{Dir: k.dir, NUMANodes: 1, Policy: "none", Scope: "container"}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.process != nil {
		return errors.New("kubelet runs already")
	}
	if k.Claims() != nil {
		opts.APIServer, opts.NodeName = k.apiServer, nodeName
	}
	for _, pods := range []map[string]*wire.Running{k.pods, k.claimPods} {
		for _, name := range slices.Sorted(maps.Keys(pods)) {
			opts.Pods = append(opts.Pods, *pods[name])
		}
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
	sockets := slices.DeleteFunc(connected(k.dir), func(path string) bool { return !strings.HasPrefix(filepath.Base(path), socketPrefix) })
	seen := &kubeletSeen{Resources: map[string]resourceSeen{}, Duplicates: k.log.duplicates(), Connections: len(sockets)}
	for name, r := range all {
		of := resourceSeen{Healthy: r.Healthy, Unhealthy: r.Unhealthy}
		prefix := socketPrefix + strings.ReplaceAll(name, "/", "_") + "-"
		if !slices.ContainsFunc(sockets, func(path string) bool { return strings.HasPrefix(filepath.Base(path), prefix) }) {
			of = resourceSeen{Orphaned: slices.Concat(r.Healthy, r.Unhealthy)}
		}
		seen.Resources[name] = of
	}
	return seen
}

// socketPrefix begins the names by which the agent listens: those without the dot get
// visible when all is ready.
const socketPrefix = ".accelmux-"

// connected are the paths of the sockets under dir to which somebody is connected:
// nobody but kubelet connects to plugins.
func connected(dir string) []string {
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil
	}
	paths := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		// Num RefCount Protocol Flags Type St Inode Path; of a connection that was
		// accepted St is 03, and the path is that of the socket which listens.
		fields := strings.Fields(line)
		if len(fields) == 8 && fields[5] == "03" && strings.HasPrefix(fields[7], dir+"/") {
			paths[fields[7]] = true
		}
	}
	return slices.Sorted(maps.Keys(paths))
}
