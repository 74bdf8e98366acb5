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
)

const (
	// maxOld bounds the predecessors that are kept mute. It is more than a node
	// ever needs: going by it costs capacity for a moment with kubelets up to 1.36.
	maxOld = 64
	// maxGone bounds what is remembered of units that left.
	maxGone = 1 << 16
	// acceptRetry is the pause after a kubelet.sock that refused for the first time; it
	// doubles. Between the two calls that make a socket, bind and listen, it is there
	// and refuses, and its file's event comes in between more often than not.
	acceptRetry = time.Millisecond
	// never is a wait that only a wake-up ends.
	never = time.Duration(1<<63 - 1)
)

// advert is one resource: its view, and the instances that serve it. One
// goroutine, run, replaces instances; gRPC's goroutines come and go with calls.
type advert struct {
	name   string
	plugin *Plugin
	timing Timing
	log    *slog.Logger
	wake   chan struct{} // 1 slot: the view or a stream changed
	// running is whether run was started, end ends it, and unlisted is the round in
	// which the resource left the table, 0 if it is there; guarded by Plugin.mu.
	running  bool
	end      context.CancelFunc
	unlisted uint64
	// closing are instances on their way out.
	closing sync.WaitGroup
	// failures is the number of failures in a row, lastFailure when the last one was, and
	// lastKubelet the kubelet at that time; they are run's own. Changes that the agent makes
	// do not count. refused is whether the last attempt ended in an error.
	failures    int
	lastFailure time.Time
	refused     bool
	lastKubelet fileID

	mu      sync.Mutex
	now     *view
	changed chan struct{} // closed and replaced with every view, and to repeat it
	// repeats is how often the same list was to be sent again.
	repeats int
	// gone are units that left the view: whether their device had a Prepare hook.
	gone map[string]bool
	// current is the newest instance that kubelet was told of; old are its
	// predecessors whose streams kubelet has not closed yet, in order.
	current *instance
	old     []*instance
	// renew: kubelet must take the resource anew, though it has a stream.
	renew bool
	// phase is what run is doing; state is what is shown of it.
	phase, state  State
	since         time.Time
	registrations int
	lastError     string
	errorLogged   time.Time
}

func newAdvert(name string, v *view, p *Plugin) *advert {
	a := &advert{
		name: name, plugin: p, timing: p.opts.Timing, log: p.log.With("resource", name),
		wake: make(chan struct{}, 1), now: v, changed: make(chan struct{}), gone: map[string]bool{},
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

// publish makes v what kubelet is told.
func (a *advert) publish(v *view) {
	a.mu.Lock()
	before := a.now
	for _, u := range before.removed(v) {
		if len(a.gone) >= maxGone {
			clear(a.gone)
		}
		a.gone[u.ID] = u.Device.Hooks.Prepare
	}
	a.now = v
	close(a.changed)
	a.changed = make(chan struct{})
	a.mu.Unlock()
	a.logNotes(before.notes, v.notes)
	poke(a.wake)
}

func (a *advert) view() *view {
	v, _, _ := a.viewAndChange()
	return v
}

// run keeps the resource registered until it is yielded, and served until ctx
// ends.
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
			a.rest(ctx, wait, changed)
			continue
		}
		if err := a.replace(ctx, why); err != nil && ctx.Err() == nil {
			a.fail(err)
		}
	}
}

// rest waits for a wake-up, a change on disk, or until wait is over.
func (a *advert) rest(ctx context.Context, wait time.Duration, changed <-chan struct{}) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-a.wake:
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// replace puts a new instance in the place of the current one, which goes on
// serving until kubelet has connected to the new one.
func (a *advert) replace(ctx context.Context, why cause) error {
	if why.isFailure() || a.refused {
		a.pause(ctx)
		if why, _ = a.judge(ctx, time.Now()); why == "" || ctx.Err() != nil {
			return ctx.Err() // kubelet came back by itself
		}
	}
	err := a.succeed(ctx, why)
	a.refused = err != nil
	if a.refused || why.isFailure() {
		a.failures++
		a.lastFailure = time.Now()
	}
	return err
}

// succeed is replace's work.
func (a *advert) succeed(ctx context.Context, why cause) error {
	kind := a.view().registration
	var kubelet fileID
	if kind != config.RegisterWatcher {
		kubelet = a.awaitKubelet(ctx)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	a.lastKubelet = identify(a.plugin.watch.socket)
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

// pause waits after failures in a row. It ends, and the count is reset, when kubelet has
// been restarted since the last failure, or when a stream has lasted MaxBackoff since then.
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
		if kubelet := identify(a.plugin.watch.socket); kubelet != a.lastKubelet && kubelet != (fileID{}) {
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

// awaitKubelet waits until kubelet accepts connections, and says which one it is.
// Only then it is past deleting the sockets that it found at its start.
func (a *advert) awaitKubelet(ctx context.Context) fileID {
	var before fileID
	refusals := 0
	var since time.Time
	for {
		_, _, changed := a.plugin.watch.current()
		kubelet := identify(a.plugin.watch.socket)
		if kubelet != before {
			before, refusals, since = kubelet, 0, time.Now()
		}
		pause := never
		if kubelet != (fileID{}) {
			err := accepts(ctx, a.plugin.watch.socket)
			if err == nil && kubelet == identify(a.plugin.watch.socket) {
				return kubelet
			}
			// A kubelet that has just bound its socket refuses for a moment.
			if err != nil && ctx.Err() == nil && time.Since(since) >= a.timing.Backoff {
				a.fail(fmt.Errorf("cannot connect to kubelet on %s; it is tried again: %w", a.plugin.watch.socket, err))
			}
			refusals++
			pause = backoff.Base(refusals, acceptRetry, a.timing.Poll)
		} else {
			a.note("kubelet is not there: " + a.plugin.watch.socket + " does not exist; the resource is registered as soon as it does")
		}
		if ctx.Err() != nil {
			return fileID{}
		}
		a.setPhase(StateWaiting)
		a.rest(ctx, pause, changed)
	}
}

// listen makes an instance that serves on a fresh socket.
func (a *advert) listen(kind config.Registration, kubelet fileID) (*instance, error) {
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
		options.PreStartRequired = options.PreStartRequired || in.options.GetPreStartRequired()
		options.GetPreferredAllocationAvailable = options.GetPreferredAllocationAvailable ||
			in.options.GetGetPreferredAllocationAvailable()
	}
	a.mu.Unlock()
	return newInstance(a, kind, a.plugin.sockets.next(dir, a.name), kubelet, options)
}

// install makes in the current instance.
func (a *advert) install(in *instance) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current != nil {
		a.old = append(a.old, a.current)
	}
	a.current, a.renew = in, false
	if !in.streamed {
		// Kubelet's time to connect begins now.
		in.idleSince = time.Now()
	}
	a.phase = StateConnecting
	a.refresh()
}

// reap closes predecessors that kubelet has let go of. The others stay: up to
// 1.36 kubelet takes the end of any stream for that of the newest one.
func (a *advert) reap() {
	a.mu.Lock()
	var done []*instance
	a.old = slices.DeleteFunc(a.old, func(in *instance) bool {
		if in.streams == 0 {
			done = append(done, in)
		}
		return in.streams == 0
	})
	a.mu.Unlock()
	for _, in := range done {
		a.close(in)
	}
}

// makeRoom closes the oldest predecessor if there are too many, and lets kubelet
// get over it before there is a successor: a kubelet up to 1.36 drops the newest
// connection at each end of a stream, and once more when it sees that a file left
// plugins_registry. That must not be the successor's.
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
	a.log.Warn("kubelet holds on to too many earlier sockets of the resource: the oldest is closed, which with a kubelet up to 1.36 takes its devices away for a moment",
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

// close ends an instance in the background.
func (a *advert) close(in *instance) { a.closing.Go(in.close) }

// instances are all that serve, in order.
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
