package rival

import (
	"context"
	"maps"
	"time"
)

// contest is a resource of which kubelet has another list than ours.
type contest struct {
	// sockets were listened on by others at the last look.
	sockets map[string]bool
	// renewed: it was registered again, and no socket has gone since.
	renewed bool
}

// renew has a resource registered again whose other plugin has left: kubelet keeps that
// one's list, or none, until there is a new one of ours. It has left if a socket has that
// was there, if there is none, or if kubelet has no healthy unit. While the other one is
// there, nothing is registered; and if it did not help, not again before another socket
// has gone.
func (w *Watch) renew(ctx context.Context) {
	contested := map[string]bool{}
	for _, r := range w.Rivals() {
		if r.Sign == SignList {
			contested[r.Resource] = true
		}
	}
	maps.DeleteFunc(w.contests, func(name string, _ *contest) bool { return !contested[name] })
	if len(contested) == 0 {
		return
	}
	live := map[string]bool{}
	for _, path := range w.opts.Listening(ctx) {
		live[path] = true
	}
	for name := range contested {
		c := w.contests[name]
		if c == nil {
			c = &contest{}
			w.contests[name] = c
		}
		gone := false
		for path := range c.sockets {
			gone = gone || !live[path]
		}
		c.sockets = live
		if gone || !c.renewed && (len(live) == 0 || w.empty[name]) {
			w.opts.Log.Info("another device plugin has left: the resource is registered again", "resource", name)
			w.opts.Renew(name)
			c.renewed, w.compared = true, time.Time{}
		}
	}
}
