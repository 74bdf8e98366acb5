package deviceplugin

import (
	"context"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/kubeletdir"
)

// cause is why a resource gets a new instance.
type cause string

const (
	causeNew          cause = "the resource is new"
	causeRegistration cause = "its way of registration was changed"
	causeOptions      cause = "its options changed"
	causeRemoved      cause = "its socket was removed"
	causeNewKubelet   cause = "kubelet was restarted"
	causeRenew        cause = "another plugin that served it has left"
	causeNoSuccessor  cause = "its successor failed"
	causeBroken       cause = "its stream broke and kubelet did not open another"
	causeNoStream     cause = "kubelet did not ask for its devices"
)

// isFailure reports whether a pause must precede the next instance. The others are wanted by
// the agent or by kubelet, or, a failed successor, were counted before.
func (c cause) isFailure() bool {
	return c == causeRemoved || c == causeBroken || c == causeNoStream
}

// judge returns why the current instance must be replaced, or "" and how long to wait before
// judging again if there is no event.
func (a *advert) judge(ctx context.Context, now time.Time) (why cause, wait time.Duration) {
	kubelet := kubeletdir.Identify(a.plugin.watch.socket)
	_, kubeletSince, _ := a.plugin.watch.current()
	a.mu.Lock()
	in, v := a.current, a.now
	if in == nil {
		a.mu.Unlock()
		return causeNew, 0
	}
	streams, streamed, superseded, idleSince, renew := in.streams, in.streamed, in.isSuperseded, in.idleSince, a.renew
	a.mu.Unlock()

	// A change waits for kubelet's first stream, or for the end of Timing.Connect: an
	// instance that is closed while kubelet connects would break that stream.
	changeable := streamed || kubelet == kubeletdir.FileID{}
	switch {
	case kubeletdir.Identify(in.path) == kubeletdir.FileID{}:
		return causeRemoved, 0
	case in.kind != config.RegisterWatcher && kubelet != kubeletdir.FileID{} && kubelet != in.kubelet:
		return causeNewKubelet, 0
	case superseded:
		return causeNoSuccessor, 0
	case changeable && in.kind != v.registration:
		return causeRegistration, 0
	case changeable && !in.offers(v):
		return causeOptions, 0
	case changeable && renew:
		return causeRenew, 0
	case streams > 0:
		return "", never
	}
	limit, since := a.timing.Connect, idleSince
	if in.kind == config.RegisterWatcher {
		// Kubelet's plugin watcher finds the file when kubelet runs.
		if kubelet == (kubeletdir.FileID{}) || kubeletdir.Dial(ctx, a.plugin.watch.socket) != nil {
			a.setPhase(StateWaiting)
			return "", a.timing.Poll
		}
		a.setPhase(StateConnecting)
		if kubeletSince.After(since) {
			since = kubeletSince
		}
	} else if streamed {
		limit = a.timing.Grace
	}
	if left := limit - now.Sub(since); left > 0 {
		return "", left
	}
	if streamed {
		return causeBroken, 0
	}
	return causeNoStream, 0
}
