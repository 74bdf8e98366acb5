package deviceplugin

import (
	"context"
	"time"

	"github.com/accelmux/accelmux/core/config"
)

// cause is why an instance is replaced.
type cause string

const (
	causeNew        cause = "it is new"
	causeWay        cause = "its way of registration was changed"
	causeOptions    cause = "its options changed"
	causeVanished   cause = "its socket vanished"
	causeNewKubelet cause = "kubelet is a new one"
	causeContested  cause = "another plugin that served it has left"
	causeMuted      cause = "its successor failed"
	causeBroken     cause = "its stream broke and kubelet did not open another"
	causeNoStream   cause = "kubelet did not ask for its devices"
)

// isFailure tells trouble, which must not come again and again without a pause,
// from what we or kubelet want. A successor that failed was counted already.
func (c cause) isFailure() bool {
	return c == causeVanished || c == causeBroken || c == causeNoStream
}

// judge says why the current instance must be replaced, or "" and when to judge
// again if nothing happens before.
func (a *advert) judge(ctx context.Context, now time.Time) (why cause, wait time.Duration) {
	kubelet := identify(a.plugin.watch.socket)
	_, kubeletSince, _ := a.plugin.watch.current()
	a.mu.Lock()
	in, v := a.current, a.now
	if in == nil {
		a.mu.Unlock()
		return causeNew, 0
	}
	streams, streamed, muted, idleSince, renew := in.streams, in.streamed, in.isMuted, in.idleSince, a.renew
	a.mu.Unlock()

	// Kubelet may be about to open the first stream. To close the socket under it
	// would break a stream, so a change waits until kubelet has it, or gave up.
	settled := streamed || kubelet == fileID{}
	switch {
	case identify(in.path) == fileID{}:
		return causeVanished, 0
	case in.kind != config.RegisterWatcher && kubelet != fileID{} && kubelet != in.kubelet:
		return causeNewKubelet, 0
	case muted:
		return causeMuted, 0
	case settled && in.kind != v.registration:
		return causeWay, 0
	case settled && !in.offers(v):
		return causeOptions, 0
	case settled && renew:
		return causeContested, 0
	case streams > 0:
		return "", never
	}
	limit, since := a.timing.Connect, idleSince
	if in.kind == config.RegisterWatcher {
		// Kubelet finds the file by itself, as soon as there is a kubelet.
		if kubelet == (fileID{}) || accepts(ctx, a.plugin.watch.socket) != nil {
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
