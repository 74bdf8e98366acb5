package deviceplugin

import "time"

// viewAndChange returns the view, how often it was repeated, and a channel that is closed
// when one of them changes.
func (a *advert) viewAndChange() (*view, int, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now, a.repeats, a.changed
}

// repeat sends the list again; it returns false if kubelet does not accept the resource
// now.
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

// streamOpened notes that kubelet opened a stream of in, and silences all older
// instances. It reports whether one of them was still talking.
func (a *advert) streamOpened(in *instance) (handover bool) {
	a.mu.Lock()
	in.streams++
	in.streamed = true
	in.openedAt = time.Now()
	a.registrations++
	for _, older := range a.old {
		handover = older.mute(in) || handover
	}
	if a.current != nil {
		handover = a.current.mute(in) || handover
	}
	a.lastError = ""
	a.refresh()
	a.mu.Unlock()
	a.log.Info("kubelet takes the devices", "socket", in.path)
	poke(a.wake)
	return handover
}

// streamClosed notes that a stream of in ended.
func (a *advert) streamClosed(in *instance) {
	a.mu.Lock()
	in.streams--
	in.idleSince = time.Now()
	quiet := in.isMuted || in.isStopped()
	a.refresh()
	a.mu.Unlock()
	if !quiet {
		a.log.Info("kubelet's stream ended", "socket", in.path)
	}
	poke(a.wake)
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

// refresh derives state from phase: as long as any instance talks to kubelet the
// resource is served, whatever run is about to change. mu is held.
func (a *advert) refresh() {
	state := a.phase
	for _, in := range append(a.old[:len(a.old):len(a.old)], a.current) {
		if in != nil && in.streams > 0 && !in.isMuted {
			state = StateServing
		}
	}
	if state != a.state {
		a.state, a.since = state, time.Now()
	}
}

// fail notes what went wrong, and logs it if it is news.
func (a *advert) fail(err error) {
	text := err.Error()
	a.mu.Lock()
	news := a.lastError != text || time.Since(a.errorLogged) > stillAbsent
	a.lastError = text
	if news {
		a.errorLogged = time.Now()
	}
	a.mu.Unlock()
	if news {
		a.log.Warn("the resource is not registered with kubelet", "error", err)
	}
}

// note is fail without the log, for what the log says elsewhere.
func (a *advert) note(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastError = text
}

// answered passes on that one of kubelet's calls is over.
func (a *advert) answered(call Call, took time.Duration, err error) {
	if tell := a.plugin.opts.Answered; tell != nil {
		tell(call, a.name, took, err)
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

// hadHook tells whether a unit that left had a Prepare hook, and whether it is
// remembered at all.
func (a *advert) hadHook(id string) (hook, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	hook, known = a.gone[id]
	return hook, known
}
