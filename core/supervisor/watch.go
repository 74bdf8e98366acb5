package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/durationpb"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// message is what the stream delivered, or how it ended.
type message struct {
	received
	err error
}

// watcher follows one Watch stream.
type watcher struct {
	*instance
	messages <-chan message
	intake   *intake
	// silence fires when a message is overdue at due: the first inventory, and
	// after it any message at all.
	silence *time.Timer
	due     time.Time
	limit   time.Duration
	running bool
	// counted is when the processes and threads of the machine were last counted, and fewest
	// their smallest number since the backend's own were counted.
	counted time.Time
	fewest  int
	// answers is where the Configure that is going on leaves its result; nil if
	// none is.
	answers  chan error
	settings json.RawMessage
	// accepted are the revisions of accepted settings from the latest inventory's on,
	// ascending.
	accepted []uint64
	// unfollowed fires at followBy, when the inventory of the latest accepted settings is
	// overdue.
	unfollowed *time.Timer
	followBy   time.Time
}

// watch follows the inventory until the process is of no more use.
func (i *instance) watch() error {
	ctx, cancel := context.WithCancel(i.ctx)
	defer cancel()
	stream, err := i.service.Watch(ctx, &backendv1.WatchRequest{HeartbeatInterval: durationpb.New(i.spec.Heartbeat)})
	if err != nil {
		return i.broken("Watch", err)
	}
	messages := make(chan message)
	in := &intake{
		next: func() (r received, err error) { return r, stream.RecvMsg(&r) }, to: messages,
		late: func() {
			if i.hasty.add(1) {
				i.log.Warn("the backend sends more updates than are taken, and is slowed down", "a_second", backendplugin.MessageRate, "bytes_a_second", backendplugin.MessageRate*backendplugin.MessageBytes)
			}
		},
	}
	go in.run(ctx)
	w := &watcher{
		instance: i, messages: messages, intake: in,
		silence: time.NewTimer(i.timing.FirstInventory), due: time.Now().Add(i.timing.FirstInventory),
		limit:    time.Duration(i.timing.MissedHeartbeats) * i.spec.Heartbeat,
		accepted: []uint64{i.revision}, unfollowed: time.NewTimer(i.timing.FirstInventory),
	}
	defer w.silence.Stop()
	defer w.unfollowed.Stop()
	w.unfollowed.Stop() // silence is for the first inventory
	err = w.follow()
	if w.answers != nil {
		cancel()
		i.cancel(err)
		if late := <-w.answers; late != nil { // it has a deadline, and has just lost its context
			i.log.Debug("settings were on their way when the process ended", "error", late)
		}
	}
	return err
}

// intake takes what a stream delivers, at a bounded rate. The next message is not read
// before this one is handed on, so that there is one at a time.
type intake struct {
	next func() (received, error)
	to   chan<- message
	// late is called for each message that has to wait.
	late func()
	// holding is true while one waits.
	holding atomic.Bool
}

func (in *intake) run(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	const least = backendplugin.MessageBytes
	budget := rate.NewLimiter(backendplugin.MessageRate*least, backendplugin.MessageBurst*least)
	for {
		response, err := in.next()
		var wait time.Duration
		if err == nil { // the stream's end costs nothing
			wait = budget.ReserveN(time.Now(), least+response.size).Delay()
		}
		if wait > 0 {
			in.holding.Store(true)
			in.late()
			pause.Reset(wait)
			select {
			case <-pause.C:
			case <-ctx.Done():
				return
			}
		}
		select {
		case in.to <- message{response, err}:
		case <-ctx.Done():
			return
		}
		in.holding.Store(false)
		if err != nil {
			return
		}
	}
}

func (w *watcher) follow() error {
	for {
		offers := w.offers
		if w.answers != nil {
			offers = nil // one Configure at a time
		}
		select {
		case m := <-w.messages:
			if err := w.take(m); err != nil {
				return err
			}
		case <-w.unfollowed.C:
			if err := w.notFollowed(); err != nil {
				return err
			}
		case <-w.silence.C:
			if err := w.overdue(); err != nil {
				return err
			}
		case w.settings = <-offers:
			answers := make(chan error, 1)
			w.answers = answers
			go func() { answers <- w.configure(w.settings) }()
		case err := <-w.answers:
			if err := w.answered(err); err != nil {
				return err
			}
		case <-w.process.exited:
			return w.broken("Watch", io.EOF)
		case <-w.ctx.Done():
			return context.Cause(w.ctx)
		}
	}
}

// answered takes the result of Configure.
func (w *watcher) answered(err error) error {
	w.answers = nil
	if errors.As(err, new(*failure)) {
		return err
	}
	if err == nil {
		w.accepted = append(w.accepted, w.revision)
		w.awaitInventory()
	}
	w.backend.post(configuredEvent{w.instance, w.settings, w.revision, w.needs, err, w.schemaBad})
	return nil
}

func (w *watcher) awaitInventory() {
	w.unfollowed.Reset(w.timing.FirstInventory)
	w.followBy = time.Now().Add(w.timing.FirstInventory)
}

// notFollowed is for accepted settings without an inventory. If it was this process that did
// not run, or does not take messages yet, the backend gets the time again.
func (w *watcher) notFollowed() error {
	if w.intake.holding.Load() || time.Since(w.followBy) > w.timing.FirstInventory/2 {
		w.awaitInventory()
		return nil
	}
	return fail(crashed, "it accepted settings, but sent no inventory with their revision within %s%s", w.timing.FirstInventory, w.words())
}

// follows checks which settings an inventory follows from. One of settings whose Configure
// is in progress came before the answer to that: it waits for it.
func (w *watcher) follows(inventory *backendv1.Inventory) error {
	revision := inventory.GetSettingsRevision()
	if w.answers != nil && revision > w.accepted[len(w.accepted)-1] {
		if err := w.answered(<-w.answers); err != nil {
			return err
		}
	}
	i := slices.Index(w.accepted, revision)
	if i < 0 {
		return fail(violated, "its inventory has the settings revision %d; those of accepted settings that may be in force are %v", revision, w.accepted)
	}
	if w.accepted = w.accepted[i:]; len(w.accepted) == 1 {
		w.unfollowed.Stop()
	}
	return nil
}

// take handles a message. Heartbeats and inventories come from the loop that watches the
// hardware, so both are signs of life; but heartbeats do not stand in for the first
// inventory.
func (w *watcher) take(m message) error {
	if errors.Is(m.err, io.EOF) {
		return w.broken("Watch", errors.New("it ended the stream, which only the core may do"))
	}
	if m.err != nil {
		return w.broken("Watch", m.err)
	}
	if inventory := m.GetInventory(); inventory != nil {
		if err := w.follows(inventory); err != nil {
			return err
		}
		if !w.running {
			w.running, w.readyAt = true, time.Now()
		}
		w.backend.post(inventoryEvent{w.instance, inventory})
	}
	if w.running {
		w.extend(w.limit)
	}
	return w.countTasks()
}

// countTasks fails for a backend that has too many processes and threads. Once a heartbeat
// is enough: this process survives when no more can be started. Counting takes
// milliseconds, so it is done only if the whole machine has many more than before.
func (w *watcher) countTasks() error {
	if time.Since(w.counted) < w.spec.Heartbeat/2 {
		return nil
	}
	w.counted = time.Now()
	all := allTasks()
	if w.fewest = min(w.fewest, all); all-w.fewest < maxTasks/2 && w.fewest > 0 {
		return nil
	}
	w.fewest = all
	if n := w.process.reaper.tasks(w.pid(), w.process.dir); n > maxTasks {
		return fail(violated, "it has more than %d processes and threads, the most that a backend may have", maxTasks)
	}
	return nil
}

func (w *watcher) extend(by time.Duration) {
	w.silence.Reset(by)
	w.due = time.Now().Add(by)
}

// overdue decides what a silence means. If it was we who did not run (this
// process was stopped, or the machine paused), the messages are on their way and
// the backend gets the time again.
func (w *watcher) overdue() error {
	select {
	case m := <-w.messages:
		return w.take(m)
	default:
	}
	if w.intake.holding.Load() { // it is alive, and it is we who let it wait
		w.extend(w.limit)
		return nil
	}
	if late := time.Since(w.due); late > w.limit/2 {
		w.log.Warn("we did not run for a while: the backend gets more time for its heartbeat", "late", late)
		w.extend(w.limit)
		return nil
	}
	if !w.running {
		return fail(crashed, "it sent no inventory within %s%s", w.timing.FirstInventory, w.words())
	}
	if err := w.checkHealth(w.ctx); err != nil {
		if w.ctx.Err() != nil {
			return context.Cause(w.ctx)
		}
		return fail(crashed, "no sign of life for %s, and its server does not answer either: it hangs or is stopped%s", w.limit, w.words())
	}
	return w.lastChance()
}

// lastChance is for a backend whose server has just answered. What came before the answer,
// on the same connection, has been received by now: if we did not run for almost as long as
// the silence, that are all the messages that we did not take.
func (w *watcher) lastChance() error {
	w.silence.Reset(w.limit / 10)
	select {
	case m := <-w.messages:
		return w.take(m)
	case <-w.process.exited:
		return w.broken("Watch", io.EOF)
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	case <-w.silence.C:
		return fail(crashed, "no heartbeat for %s although its server answers: the loop that watches the hardware hangs%s", w.limit, w.words())
	}
}

// checkHealth asks the health service, with a deadline, which go-plugin's own
// Ping does not have.
func (i *instance) checkHealth(ctx context.Context) error {
	i.mu.Lock()
	conn := i.conn
	i.mu.Unlock()
	if conn == nil {
		return ErrNotRunning
	}
	ctx, cancel := context.WithTimeout(ctx, i.timing.Health)
	defer cancel()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: backendplugin.HealthService})
	if err != nil {
		return err
	}
	if answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return errors.New("its server says it is not serving")
	}
	return nil
}
