package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/plug"
)

// missedHeartbeats is how many intervals may pass without a message.
const missedHeartbeats = 3

// answer is the result of a Configure: the description for the settings, or why they are not in force.
type answer struct {
	desc inventory.Description
	err  error
}

// watched is what a watcher needs of a [plug.Process].
type watched interface {
	CheckHealth(ctx context.Context) error
	Exited() <-chan struct{}
	Appeared() <-chan string
	Explain(ctx context.Context, call string, err error) error
	LastLog() string
	Late(since plug.Times, deadline time.Duration, format string) error
}

// watcher follows one Watch stream.
type watcher struct {
	*instance
	process watched // the instance's
	stream  *plug.Stream
	// silence fires when a message is overdue, at deadline: the first inventory, and after
	// it any message.
	silence  *time.Timer
	deadline time.Time
	limit    time.Duration
	running  bool
	// since are the process's times when the stream began.
	since plug.Times
	// answers receives the result of the Configure in progress; nil if there is none.
	answers  chan answer
	settings json.RawMessage
	// accepted are the revisions of accepted settings since the latest inventory's,
	// ascending.
	accepted []uint64
	// unfollowed fires when the inventory of the latest accepted settings is overdue, at
	// followBy.
	unfollowed *time.Timer
	followBy   time.Time
}

// watch receives inventories until the process must end.
func (i *instance) watch() error {
	ctx, cancel := context.WithCancel(i.ctx)
	defer cancel()
	stream, err := i.process.Watch(ctx, i.spec.Heartbeat)
	if err != nil {
		return i.failure(i.process.Explain(i.ctx, "Watch", err))
	}
	w := &watcher{
		instance: i, process: i.process, stream: stream,
		silence: time.NewTimer(i.timing.FirstInventory), deadline: time.Now().Add(i.timing.FirstInventory),
		limit:    missedHeartbeats * i.spec.Heartbeat,
		since:    i.process.Times(),
		accepted: []uint64{i.revision}, unfollowed: time.NewTimer(i.timing.FirstInventory),
	}
	defer w.silence.Stop()
	defer w.unfollowed.Stop()
	w.unfollowed.Stop() // silence is the deadline of the first inventory
	err = w.follow()
	if w.answers != nil {
		cancel()
		i.cancel(err)
		if late := <-w.answers; late.err != nil { // its context has ended
			i.log.Debug("the process ended during Configure", "error", late.err)
		}
	}
	return err
}

func (w *watcher) follow() error {
	for {
		offers := w.offers
		if w.answers != nil {
			offers = nil // one Configure at a time
		}
		var appeared <-chan string
		if w.running { // the event comes after that of the first inventory
			appeared = w.process.Appeared()
		}
		select {
		case files := <-appeared:
			w.backend.post(appearedEvent{w.instance, files})
		case m := <-w.stream.Messages:
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
			answers := make(chan answer, 1)
			w.answers = answers
			go func() {
				desc, err := w.reconfigure(w.settings)
				answers <- answer{desc, err}
			}()
		case a := <-w.answers:
			if err := w.answered(a); err != nil {
				return err
			}
		case <-w.process.Exited():
			return w.broken(io.EOF)
		case <-w.ctx.Done():
			return w.ended()
		}
	}
}

// answered processes the result of Configure.
func (w *watcher) answered(a answer) error {
	w.answers = nil
	switch {
	case a.err == nil:
		w.accepted = append(w.accepted, w.revision)
		w.awaitInventory()
	case !errors.As(a.err, new(*SettingsError)) && !errors.Is(a.err, errUnfit):
		return a.err
	}
	w.backend.post(configuredEvent{w.instance, w.settings, w.revision, a.desc, a.err})
	return nil
}

func (w *watcher) awaitInventory() {
	w.unfollowed.Reset(w.timing.FirstInventory)
	w.followBy = time.Now().Add(w.timing.FirstInventory)
}

// notFollowed handles an overdue inventory of accepted settings. If this process did not
// run, or delays messages, the deadline is extended.
func (w *watcher) notFollowed() error {
	if w.stream.Delayed() || time.Since(w.followBy) > w.timing.FirstInventory/2 {
		w.awaitInventory()
		return nil
	}
	return fail(crashed, "it accepted settings, but sent no inventory with their revision within %s%s", w.timing.FirstInventory, w.process.LastLog())
}

// follows checks the settings revision of an inventory. If it is that of the Configure in
// progress, it waits for its answer.
func (w *watcher) follows(report *inventory.Report) error {
	revision := report.GetSettingsRevision()
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

// take processes a message. Heartbeats and inventories come from the loop that watches the
// hardware, so both show that it runs; the first message must be an inventory.
func (w *watcher) take(m plug.Message) error {
	if errors.Is(m.Err, io.EOF) {
		return w.broken(errors.New("it ended the stream, which only the core may do"))
	}
	if m.Err != nil {
		return w.broken(m.Err)
	}
	if m.Report != nil {
		if err := w.follows(m.Report); err != nil {
			return err
		}
		if !w.running {
			w.running, w.readyAt = true, time.Now()
		}
		w.backend.post(inventoryEvent{w.instance, m.Report})
	}
	if w.running {
		w.extend(w.limit)
	}
	return nil
}

// broken is the failure for the end of the stream.
func (w *watcher) broken(err error) error { return w.failure(w.process.Explain(w.ctx, "Watch", err)) }

func (w *watcher) extend(by time.Duration) {
	w.silence.Reset(by)
	w.deadline = time.Now().Add(by)
}

// overdue handles an overdue message. If this process did not run (it was stopped, or the
// machine was paused), the messages may have arrived, and the deadline is extended.
func (w *watcher) overdue() error {
	select {
	case m := <-w.stream.Messages:
		return w.take(m)
	default:
	}
	if w.stream.Delayed() { // a message has arrived and is delayed
		w.extend(w.limit)
		return nil
	}
	if late := time.Since(w.deadline); late > w.limit/2 {
		w.log.Warn("the agent did not run for a while: the deadline of the backend's heartbeat is extended", "late", late)
		w.extend(w.limit)
		return nil
	}
	if !w.running {
		return w.failure(w.process.Late(w.since, w.timing.FirstInventory, "it sent no inventory within %s"))
	}
	if err := w.process.CheckHealth(w.ctx); err != nil {
		if w.ctx.Err() != nil {
			return w.ended()
		}
		return fail(crashed, "no heartbeat for %s, and its server does not answer: it hangs or is stopped%s", w.limit, w.process.LastLog())
	}
	return w.lastChance()
}

// lastChance waits briefly for a message of a backend whose server has just answered. All
// messages that were sent before the answer have arrived on the same connection; they were
// not processed if this process did not run.
func (w *watcher) lastChance() error {
	w.silence.Reset(w.limit / 10)
	select {
	case m := <-w.stream.Messages:
		return w.take(m)
	case <-w.process.Exited():
		return w.broken(io.EOF)
	case <-w.ctx.Done():
		return w.ended()
	case <-w.silence.C:
		return fail(crashed, "no heartbeat for %s although its server answers: the loop that watches the hardware hangs%s", w.limit, w.process.LastLog())
	}
}
