package deviceplugin

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/kubeletdir"
	"github.com/accelmux/accelmux/core/wake"
)

const (
	// maxOld bounds the predecessors of an instance whose streams stay open. A node does
	// not need as many: past it, kubelets up to 1.36 lose the capacity for a moment.
	maxOld = 64
	// acceptRetry is the pause after the first time that kubelet.sock refuses a connection;
	// it doubles. A socket that is bound and does not listen yet exists and refuses, and
	// the event of its file usually comes then.
	acceptRetry = time.Millisecond
	// never is a wait that ends by an event alone.
	never = time.Duration(1<<63 - 1)
)

// advert is one resource: its view, and the instances that serve it. One
// goroutine, run, replaces instances; gRPC's goroutines call the rest.
type advert struct {
	name   string
	plugin *Plugin
	timing Timing
	log    *slog.Logger
	wake   chan struct{} // 1 slot: the view or a stream changed
	// running reports whether run was started; end ends it. unlisted is the round in which
	// the resource left the table, 0 if it is in it. Only Plugin.apply uses them.
	running  bool
	end      context.CancelFunc
	unlisted uint64
	// closing has the goroutines that close instances.
	closing sync.WaitGroup
	// failures is the number of failures in a row, lastFailure the time of the last one, and
	// lastKubelet the kubelet at that time. Replacements that the agent wants are no
	// failures. refused reports whether the last attempt failed. Only run uses these four.
	failures    int
	lastFailure time.Time
	refused     bool
	lastKubelet kubeletdir.FileID

	mu      sync.Mutex
	now     *view
	changed chan struct{} // closed and replaced with every view and every repeat
	// repeats is how often an unchanged list had to be sent again.
	repeats int
	// current is the newest registered instance; old are its predecessors whose streams
	// kubelet has not closed yet, oldest first.
	current *instance
	old     []*instance
	// renew requests a new registration although kubelet has a stream.
	renew bool
	// phase is what run is doing; state is derived from it and from the streams.
	phase, state  State
	since         time.Time
	registrations int
	lastError     string
	errorLogged   time.Time
}

func newAdvert(name string, v *view, p *Plugin) *advert {
	a := &advert{
		name: name, plugin: p, timing: p.opts.Timing, log: p.log.With("resource", name),
		wake: make(chan struct{}, 1), now: v, changed: make(chan struct{}),
		phase: StateEmpty, state: StateEmpty, since: time.Now(),
	}
	a.logNotes(nil, v.notes)
	return a
}

func (a *advert) logNotes(before, after []string) {
	for _, note := range after {
		if !slices.Contains(before, note) {
			a.log.Warn("not everything can be advertised as it is", "note", note)
		}
	}
}

// publish makes v the view that is sent to kubelet.
func (a *advert) publish(v *view) {
	a.mu.Lock()
	before := a.now
	a.now = v
	close(a.changed)
	a.changed = make(chan struct{})
	a.mu.Unlock()
	a.logNotes(before.notes, v.notes)
	wake.Send(a.wake)
}

func (a *advert) view() *view {
	v, _, _ := a.viewAndChange()
	return v
}

// run keeps the resource registered until yielded is closed, and serves it until ctx ends.
func (a *advert) run(ctx context.Context, yielded <-chan struct{}) {
	defer a.closeAll()
	registering, end := context.WithCancel(ctx)
	defer end()
	go func() {
		select {
		case <-yielded:
			end()
		case <-registering.Done():
		}
	}()
	a.keepRegistered(registering)
	<-ctx.Done()
}

func (a *advert) keepRegistered(ctx context.Context) {
	for ctx.Err() == nil {
		_, _, changed := a.plugin.watch.current()
		why, wait := a.judge(ctx, time.Now())
		a.reap()
		if why == "" {
			a.sleep(ctx, wait, changed)
			continue
		}
		if err := a.replace(ctx, why); err != nil && ctx.Err() == nil {
			a.fail(err)
		}
	}
}

// sleep waits for a wake-up, a change on disk, the end of wait or that of ctx.
func (a *advert) sleep(ctx context.Context, wait time.Duration, changed <-chan struct{}) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-a.wake:
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// replace registers a new instance, after a pause if there were failures. The current one
// serves until kubelet has connected to the new one.
func (a *advert) replace(ctx context.Context, why cause) error {
	if why.isFailure() || a.refused {
		a.pause(ctx)
		if why, _ = a.judge(ctx, time.Now()); why == "" || ctx.Err() != nil {
			return ctx.Err() // kubelet connected again during the pause
		}
	}
	err := a.startInstance(ctx, why)
	a.refused = err != nil
	if a.refused || why.isFailure() {
		a.failures++
		a.lastFailure = time.Now()
	}
	return err
}

// startInstance serves on a new socket, registers it unless kubelet's plugin watcher
// does, and makes it the current instance.
func (a *advert) startInstance(ctx context.Context, why cause) error {
	kind := a.view().registration
	var kubelet kubeletdir.FileID
	if kind != config.RegisterWatcher {
		kubelet = a.awaitKubelet(ctx)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	a.lastKubelet = kubeletdir.Identify(a.plugin.watch.socket)
	a.makeRoom(ctx)
	in, err := a.listen(kind, kubelet)
	if err != nil {
		return err
	}
	a.log.Debug("a new socket is served", "socket", in.path, "reason", string(why))
	if kind != config.RegisterWatcher {
		a.setPhase(StateRegistering)
		if err := a.register(ctx, in); err != nil && !a.isStreaming(in) {
			a.close(in)
			return err
		}
	}
	a.install(in)
	return nil
}

// pause waits after failures in a row. It returns at once, and the count is reset, when
// kubelet has been restarted since the last failure, or when a stream has lasted MaxBackoff
// since then.
func (a *advert) pause(ctx context.Context) {
	a.mu.Lock()
	stable := a.current != nil && a.current.servedSince(a.lastFailure) >= a.timing.MaxBackoff
	a.mu.Unlock()
	if stable {
		a.failures = 0
	}
	if a.failures == 0 {
		return
	}
	timer := time.NewTimer(backoff.After(a.failures, a.timing.Backoff, a.timing.MaxBackoff))
	defer timer.Stop()
	for {
		_, _, changed := a.plugin.watch.current()
		if kubelet := kubeletdir.Identify(a.plugin.watch.socket); kubelet != a.lastKubelet && kubelet != (kubeletdir.FileID{}) {
			a.failures = 0
			return
		}
		a.setPhase(StateWaiting)
		select {
		case <-timer.C:
			return
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// awaitKubelet waits until kubelet accepts connections, and returns the ID of its socket.
// Kubelet deletes the sockets that it finds before it accepts any.
func (a *advert) awaitKubelet(ctx context.Context) kubeletdir.FileID {
	var before kubeletdir.FileID
	refusals := 0
	var since time.Time
	for {
		_, _, changed := a.plugin.watch.current()
		kubelet := kubeletdir.Identify(a.plugin.watch.socket)
		if kubelet != before {
			before, refusals, since = kubelet, 0, time.Now()
		}
		pause := never
		if kubelet != (kubeletdir.FileID{}) {
			err := kubeletdir.Dial(ctx, a.plugin.watch.socket)
			if err == nil && kubelet == kubeletdir.Identify(a.plugin.watch.socket) {
				return kubelet
			}
			// A kubelet that does not listen yet on the socket refuses for a moment.
			if err != nil && ctx.Err() == nil && time.Since(since) >= a.timing.Backoff {
				a.fail(fmt.Errorf("cannot connect to kubelet on %s; it is tried again: %w", a.plugin.watch.socket, err))
			}
			refusals++
			pause = backoff.Base(refusals, acceptRetry, a.timing.Poll)
		} else {
			a.note("kubelet is not there: " + a.plugin.watch.socket + " does not exist; the resource is registered as soon as it does")
		}
		if ctx.Err() != nil {
			return kubeletdir.FileID{}
		}
		a.setPhase(StateWaiting)
		a.sleep(ctx, pause, changed)
	}
}

// listen returns a new instance that serves on a new socket. It offers the options that the
// view needs and those of an instance with a stream: options are removed only when nothing is
// advertised.
func (a *advert) listen(kind config.Registration, kubelet kubeletdir.FileID) (*instance, error) {
	dir := a.plugin.opts.Dir
	if kind == config.RegisterWatcher {
		dir = a.plugin.opts.RegistryDir
	}
	v := a.view()
	options := &pluginapi.DevicePluginOptions{
		PreStartRequired: v.preStart, GetPreferredAllocationAvailable: v.topology.Helps(),
	}
	a.mu.Lock()
	if in := a.current; in != nil && in.streams > 0 {
		options.PreStartRequired = options.PreStartRequired || in.options.GetPreStartRequired() && !v.withheld
		options.GetPreferredAllocationAvailable = options.GetPreferredAllocationAvailable ||
			in.options.GetGetPreferredAllocationAvailable()
	}
	a.mu.Unlock()
	return newInstance(a, kind, a.plugin.sockets.next(dir, a.name), kubelet, options)
}

// install makes in the current instance, and the one before its predecessor.
func (a *advert) install(in *instance) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current != nil {
		a.old = append(a.old, a.current)
	}
	a.current, a.renew = in, false
	if !in.streamed {
		// Timing.Connect begins now.
		in.idleSince = time.Now()
	}
	a.phase = StateConnecting
	a.refresh()
}

// reap closes predecessors whose streams kubelet has closed. The others stay: up to 1.36,
// kubelet drops the newest connection when any stream of the resource ends.
func (a *advert) reap() {
	a.mu.Lock()
	var closed []*instance
	a.old = slices.DeleteFunc(a.old, func(in *instance) bool {
		if in.streams == 0 {
			closed = append(closed, in)
		}
		return in.streams == 0
	})
	a.mu.Unlock()
	for _, in := range closed {
		a.close(in)
	}
}

// makeRoom closes the oldest predecessor if there are maxOld, and waits Timing.Grace: up to
// 1.36, kubelet drops the newest connection when a stream ends, and again when a file is
// removed from plugins_registry. That must not be the connection of the next instance.
func (a *advert) makeRoom(ctx context.Context) {
	a.reap()
	a.mu.Lock()
	if len(a.old) < maxOld {
		a.mu.Unlock()
		return
	}
	oldest := a.old[0]
	a.old = slices.Delete(a.old, 0, 1)
	a.mu.Unlock()
	a.log.Warn("kubelet keeps too many earlier sockets of the resource open: closing the oldest; a kubelet up to 1.36 then has none of its devices for a moment",
		"socket", oldest.path, "limit", maxOld)
	closed := make(chan struct{})
	a.closing.Go(func() {
		defer close(closed)
		oldest.close()
	})
	select {
	case <-closed:
	case <-ctx.Done():
		return
	}
	timer := time.NewTimer(a.timing.Grace)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// close closes an instance in the background.
func (a *advert) close(in *instance) { a.closing.Go(in.close) }

// instances returns the predecessors, oldest first, and then the current instance.
func (a *advert) instances() []*instance {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := slices.Clone(a.old)
	if a.current != nil {
		all = append(all, a.current)
	}
	return all
}

func (a *advert) closeAll() {
	for _, in := range a.instances() {
		a.close(in)
	}
	a.closing.Wait()
}
