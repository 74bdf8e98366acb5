package kubelettest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const maxRegisterWait = 2*time.Minute + 2*time.Second

// watcher is kubelet's plugin manager: it lists the sockets in RegistryDir once per
// Timing.Reconcile, which is when kubelet acts on them too, calls GetInfo on each new one,
// and connects.
type watcher struct {
	kubelet *Kubelet
	process *process

	mu sync.Mutex
	// plugins are by socket path; guarded by mu.
	plugins map[string]*plugin
}

// plugin is one socket file. A file that was replaced is another plugin.
type plugin struct {
	file fs.FileInfo
	// busy while a registration runs, done when it succeeded.
	busy, done bool
	failures   int
	retryAt    time.Time
	// name and endpoint are what it answered.
	name, endpoint string
}

func newWatcher(k *Kubelet, p *process) *watcher {
	return &watcher{kubelet: k, process: p, plugins: map[string]*plugin{}}
}

func (w *watcher) run() {
	ticker := time.NewTicker(w.kubelet.timing.Reconcile)
	defer ticker.Stop()
	for {
		w.reconcile()
		select {
		case <-ticker.C:
		case <-w.process.ctx.Done():
			return
		}
	}
}

// reconcile first drops what is gone, then registers what is new.
func (w *watcher) reconcile() {
	found := findSockets(w.kubelet.RegistryDir())
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, p := range w.plugins {
		if file, ok := found[path]; ok && sameFile(file, p.file) || p.busy {
			continue
		}
		delete(w.plugins, path)
		if p.done {
			w.kubelet.deregister(p.name, p.endpoint)
			w.kubelet.forgetDriver(p.name, p.endpoint)
		}
	}
	now := time.Now()
	for path, file := range found {
		p, ok := w.plugins[path]
		if !ok {
			p = &plugin{file: file}
			w.plugins[path] = p
		}
		if p.busy || p.done || now.Before(p.retryAt) {
			continue
		}
		p.busy = true
		w.process.wg.Go(func() { w.register(path, p) })
	}
}

func (w *watcher) register(path string, p *plugin) {
	name, endpoint, err := w.kubelet.registerWatched(w.process, path)
	if err != nil && w.process.ctx.Err() == nil {
		w.kubelet.refused(name, path, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p.busy = false
	if err != nil {
		wait := w.kubelet.timing.RegisterBackoff << min(p.failures, 16)
		p.failures++
		p.retryAt = time.Now().Add(min(wait, maxRegisterWait))
		return
	}
	p.done, p.name, p.endpoint = true, name, endpoint
}

// registerWatched is GenerateRegisterPluginFunc of kubelet's operation executor.
func (k *Kubelet) registerWatched(p *process, path string) (name, endpoint string, err error) {
	conn, err := newConn(path)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = conn.Close() }()
	if err := dial(p.ctx, conn, k.timing.Dial); err != nil {
		return "", "", fmt.Errorf("dial failed at socket %s: %w", path, err)
	}
	api := registerapi.NewRegistrationClient(conn)
	ctx, cancel := context.WithTimeout(p.ctx, infoTimeout)
	defer cancel()
	info, err := api.GetInfo(ctx, &registerapi.InfoRequest{})
	if err != nil {
		return "", "", fmt.Errorf("failed to get plugin info at socket %s: %w", path, err)
	}
	endpoint = info.GetEndpoint()
	if endpoint == "" {
		endpoint = path
	}
	if info.GetType() == registerapi.DRAPlugin {
		err = k.registerDriver(info.GetName(), endpoint, info.GetSupportedVersions())
	} else if info.GetType() != registerapi.DevicePlugin {
		err = fmt.Errorf("no handler registered for plugin type: %s at socket %s", info.GetType(), path)
	} else if err = validate(info.GetName(), info.GetSupportedVersions()); err != nil {
		err = fmt.Errorf("plugin validation failed with err: %w", err)
	} else if err = k.connect(p.ctx, p, info.GetName(), endpoint); err != nil {
		err = fmt.Errorf("plugin registration failed with err: %w", err)
	}
	if notifyErr := k.notify(p.ctx, api, err); notifyErr != nil && err == nil {
		k.deregister(info.GetName(), endpoint)
		err = fmt.Errorf("failed to send registration status at socket %s: %w", path, notifyErr)
	}
	return info.GetName(), endpoint, err
}

func (k *Kubelet) notify(ctx context.Context, api registerapi.RegistrationClient, failure error) error {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	status := &registerapi.RegistrationStatus{PluginRegistered: failure == nil}
	if failure != nil {
		status.Error = "RegisterPlugin error -- " + failure.Error()
	}
	_, err := api.NotifyRegistrationStatus(ctx, status)
	return err
}

// deregister is DeRegisterPlugin: legacy takes the newest connection of that
// name, whatever the endpoint.
func (k *Kubelet) deregister(name, endpoint string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.manager.client(name, endpoint, k.opts.Legacy); c != nil {
		k.disconnect(c)
	}
}

// findSockets returns the sockets below dir; names that start with a dot are
// passed over.
func findSockets(dir string) map[string]fs.FileInfo {
	found := map[string]fs.FileInfo{}
	// A file that vanishes during the walk is seen, or not, the next time.
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if entry.Type()&fs.ModeSocket == 0 || strings.HasPrefix(entry.Name(), ".") {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			found[path] = info
		}
		return nil
	})
	return found
}

func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime())
}
