package deviceplugin

import (
	"time"

	"github.com/accelmux/accelmux/core/wake"
)

// viewAndChange returns the view, advert.repeats, and a channel that is closed when one of
// them changes.
func (a *advert) viewAndChange() (*view, int, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now, a.repeats, a.changed
}

// repeat has the list sent again; it returns false if kubelet has no stream of the
// resource.
func (a *advert) repeat() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != StateServing {
		return false
	}
	a.repeats++
	close(a.changed)
	a.changed = make(chan struct{})
	return true
}

// streamOpened records that kubelet opened a stream of in, which supersedes all older
// instances. It reports whether one of them was sending lists until then.
func (a *advert) streamOpened(in *instance) (handover bool) {
	a.mu.Lock()
	in.streams++
	in.streamed = true
	in.openedAt = time.Now()
	a.registrations++
	for _, older := range a.old {
		handover = older.supersede(in) || handover
	}
	if a.current != nil {
		handover = a.current.supersede(in) || handover
	}
	a.lastError = ""
	a.refresh()
	a.mu.Unlock()
	a.log.Info("kubelet takes the devices", "socket", in.path)
	wake.Send(a.wake)
	return handover
}

// streamClosed records that a stream of in ended.
func (a *advert) streamClosed(in *instance) {
	a.mu.Lock()
	in.streams--
	in.idleSince = time.Now()
	expected := in.isSuperseded || in.isStopped()
	a.refresh()
	a.mu.Unlock()
	if !expected {
		a.log.Info("kubelet's stream ended", "socket", in.path)
	}
	wake.Send(a.wake)
}

func (a *advert) isStreaming(in *instance) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return in.streams > 0
}

func (a *advert) setPhase(s State) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.phase = s
	a.refresh()
}

// refresh derives state: StateServing while an instance that is not superseded has a stream,
// otherwise phase. The caller holds a.mu.
func (a *advert) refresh() {
	state := a.phase
	for _, in := range append(a.old[:len(a.old):len(a.old)], a.current) {
		if in != nil && in.streams > 0 && !in.isSuperseded {
			state = StateServing
		}
	}
	if state != a.state {
		a.state, a.since = state, time.Now()
	}
}

// fail stores err for the status. It logs err if it differs from the last one, or if that
// was logged longer ago than stillFailing.
func (a *advert) fail(err error) {
	text := err.Error()
	a.mu.Lock()
	mustLog := a.lastError != text || time.Since(a.errorLogged) > stillFailing
	a.lastError = text
	if mustLog {
		a.errorLogged = time.Now()
	}
	a.mu.Unlock()
	if mustLog {
		a.log.Warn("the resource is not registered with kubelet", "error", err)
	}
}

// note stores a problem for the status without a log: kubeletWatch logs that kubelet is
// absent.
func (a *advert) note(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastError = text
}

// answered reports to Options.Answered that a call ended.
func (a *advert) answered(call Call, took time.Duration, err error) {
	if report := a.plugin.opts.Answered; report != nil {
		report(call, a.name, took, err)
	}
}

func (a *advert) status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := Status{
		Resource: a.name, State: a.state, Since: a.since,
		Healthy: a.now.healthy, Unhealthy: a.now.unhealthy,
		Registrations: a.registrations, Error: a.lastError, Notes: a.now.notes, Unlisted: a.now.unlisted,
	}
	if a.current != nil {
		s.Socket = a.current.path
	}
	return s
}
