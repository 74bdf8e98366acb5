package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/kubeapi"
	"github.com/accelmux/accelmux/core/profile"
)

// profiles are chosen between by the label that labels makes.
var profiles = &config.NodeConfig{Profiles: []config.Profile{
	{Name: "a", NodeSelector: &config.NodeSelector{MatchLabels: labels("a")}},
	{Name: "b", NodeSelector: &config.NodeSelector{MatchLabels: labels("b")}},
}}

func labels(value string) map[string]string { return map[string]string{"accelmux.io/profile": value} }

// fleet are the agents of a cluster, each with a connection, a token and a state
// directory of its own.
type fleet struct {
	names   []string
	clients []*kubeapi.Client
	traffic traffic
	dir     string

	mu sync.Mutex
	// applied is when each agent last applied a profile, and which.
	applied map[string]application
	// changes counts them.
	changes int

	cancel  context.CancelFunc
	running sync.WaitGroup
	errs    chan error
}

type application struct {
	profile string
	at      time.Time
}

func newFleet(plane *controlPlane, names, tokens []string, dir string) (*fleet, error) {
	f := &fleet{names: names, dir: dir, applied: map[string]application{}, errs: make(chan error, 2*len(names))}
	for i, name := range names {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return nil, err
		}
		config := plane.config(tokens[i])
		config.Wrap(f.traffic.wrap)
		// client-go shares the connections of clients that are equal, which agents on
		// different nodes cannot. A dialer of its own makes a client another one.
		config.Dial = (&net.Dialer{Timeout: 30 * time.Second}).DialContext
		client, err := kubeapi.Connect(config)
		if err != nil {
			return nil, err
		}
		f.clients = append(f.clients, client)
	}
	return f, nil
}

// start starts every agent at once: bare ones only watch, by hand, and evenly.
func (f *fleet) start(ctx context.Context, bare bool) {
	ctx, f.cancel = context.WithCancel(ctx)
	for i := range f.names {
		f.running.Go(func() {
			if bare {
				f.errs <- f.watch(ctx, i)
			} else {
				f.errs <- f.run(ctx, i)
			}
		})
	}
}

// stop ends them all, with their connections.
func (f *fleet) stop() error {
	if f.cancel == nil {
		return nil
	}
	f.cancel()
	f.cancel = nil
	f.running.Wait()
	for _, client := range f.clients {
		client.Close()
	}
	var first error
	for len(f.errs) > 0 {
		if err := <-f.errs; first == nil {
			first = err
		}
	}
	return first
}

// watch is the floor: the one watch, and nothing that looks at what it delivers.
func (f *fleet) watch(ctx context.Context, i int) error {
	if pause(ctx, evenly*time.Duration(i)/time.Duration(len(f.names))) != nil {
		return nil
	}
	events, err := f.clients[i].NodeMetadata(f.names[i]).WatchWithContext(ctx, metav1.ListOptions{TimeoutSeconds: new(int64(3600))})
	if err != nil {
		return err
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-events.ResultChan():
			if !ok {
				return errors.New("a bare watch ended")
			}
		}
	}
}

// run is what core/agent does at the API server: it follows the node's labels and
// tells which profile it applies.
func (f *fleet) run(ctx context.Context, i int) error {
	name := f.names[i]
	memory := profile.OpenMemory(profile.MemoryOptions{Path: filepath.Join(f.dir, name, "profile"), Node: name, Log: slog.New(slog.DiscardHandler)})
	watcher := profile.NewWatcher(profile.WatcherOptions{Nodes: f.clients[i].NodeMetadata(name), Node: name, Memory: memory})
	recorder := events.New(events.Options{Client: f.clients[i], Node: name})
	parts := make(chan error, 3)
	go func() { parts <- memory.Run(ctx) }()
	go func() { parts <- watcher.Run(ctx) }()
	go func() { parts <- recorder.Run(ctx) }()
	now := ""
	choose := func() {
		choice, err := profile.Choose(profiles, watcher.Labels())
		if err != nil || choice.Profile.Name == now {
			return // as long as the labels are unknown
		}
		news := choice.Profile.Name != memory.Profile()
		now = choice.Profile.Name
		f.apply(name, now)
		if !news {
			return // it ran before this agent was restarted
		}
		memory.SetInForce(now, nil)
		recorder.Record(events.ProfileApplied, "profile %s is applied: %s", now, choice.Reason)
	}
	choose()
	for {
		select {
		case <-ctx.Done():
			return errors.Join(<-parts, <-parts, <-parts)
		case <-watcher.Changed():
			choose()
		}
	}
}

// apply notes that an agent applies a profile.
func (f *fleet) apply(name, profile string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.applied[name] = application{profile, time.Now()}
	f.changes++
}

// on is how many agents apply a profile, and how often any did so far.
func (f *fleet) on(profile string) (count, changes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.applied {
		if a.profile == profile {
			count++
		}
	}
	return count, f.changes
}
