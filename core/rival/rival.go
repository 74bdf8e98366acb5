package rival

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/core/holders"
)

// Options of [New]. All functions are required.
type Options struct {
	// Sockets are those of other agents, as [deviceplugin.Plugin.OtherSockets] has them.
	Sockets func(context.Context) []deviceplugin.OtherSocket
	// Served are the resources that kubelet takes, as [deviceplugin.Plugin.Served] has
	// them, and Listed what it was told of one, as [deviceplugin.Plugin.Listed] has it.
	Served func() map[string]int
	Listed func(resource string) map[string]bool
	// Allocatable is what kubelet has, as [holders.Book.Allocatable] has it.
	Allocatable func(ctx context.Context, of func(resource string) bool) (map[string]map[string]bool, error)
	// Unasked are units that kubelet gave away without asking, as
	// [holders.Book.Unasked] has them.
	Unasked func() []holders.Unasked
	// Listening are sockets of others, as [deviceplugin.Plugin.Listening] has them.
	Listening func(context.Context) []string
	// Found is told of each that was not there at the last look, and Renew has a resource
	// registered again. They must not block.
	Found func(Rival)
	Renew func(resource string)
	Log   *slog.Logger
	// Timing is for tests; the zero value is right for a node.
	Timing Timing
}

// Timing are the watch's intervals. A zero field means its default.
type Timing struct {
	// Look is the interval at which sockets and containers are looked at. Default 10 s.
	Look time.Duration
	// Compare is the same for kubelet's lists, which cost more. Default 1 min.
	Compare time.Duration
	// Settle is how long a resource must have been served before what kubelet gives out
	// of it counts: at the beginning the agent before this one may have answered.
	// Default 30 s.
	Settle time.Duration
}

// maxUnits bounds the units that are compared with kubelet's, so that a look stays cheap:
// a node with more of them has virtual ones.
const maxUnits = 4096

// maxNamed bounds the units that a sentence names.
const maxNamed = 3

// Sign is how another plugin showed.
type Sign string

// The signs.
const (
	SignSocket    Sign = "socket"
	SignList      Sign = "list"
	SignContainer Sign = "container"
)

// Rival is one sign of another plugin.
type Rival struct {
	Sign Sign
	// Resource is the one that it serves, too; "" if it serves others only.
	Resource string
	// PID is that of an agent with a socket; 0 if it cannot be seen, or is none.
	PID   int
	Since time.Time
	// Message is a sentence: what is seen, what that means, and what to do.
	Message string
}

// key is what makes two signs the same.
type key struct {
	sign     Sign
	resource string
	what     string
}

// Watch looks for other plugins. Its methods are safe for concurrent use.
type Watch struct {
	opts Options
	// suspects were seen at the last look of their kind, with what they are; a look more
	// makes them certain. served is since when a resource has been served. Run's own.
	suspects map[key]time.Time
	served   map[string]time.Time
	compared time.Time
	// contests are by resource, and empty are those of which kubelet had no healthy unit
	// when the lists were compared last. Run's own.
	contests map[string]*contest
	empty    map[string]bool

	mu    sync.Mutex
	found map[key]Rival
}

// New makes a watch; Run starts it.
func New(opts Options) *Watch {
	t := &opts.Timing
	t.Look, t.Compare, t.Settle = cmp.Or(t.Look, 10*time.Second), cmp.Or(t.Compare, time.Minute), cmp.Or(t.Settle, 30*time.Second)
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Watch{opts: opts, suspects: map[key]time.Time{}, served: map[string]time.Time{}, found: map[key]Rival{}, contests: map[string]*contest{}}
}

// Run looks until ctx ends. It returns nil.
func (w *Watch) Run(ctx context.Context) error {
	ticker := time.NewTicker(w.opts.Timing.Look)
	defer ticker.Stop()
	for {
		w.look(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Rivals are the signs there are now, sorted.
func (w *Watch) Rivals() []Rival {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(maps.Values(w.found), func(a, b Rival) int {
		return cmp.Or(cmp.Compare(a.Sign, b.Sign), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Message, b.Message))
	})
}

func (w *Watch) look(ctx context.Context) {
	served := w.opts.Served()
	w.note(served)
	w.settle(SignSocket, w.sockets(ctx), true)
	w.settle(SignContainer, w.containers(), false)
	if now := time.Now(); now.Sub(w.compared) >= w.opts.Timing.Compare || w.suspicious(SignList) {
		if signs, ok := w.lists(ctx, served); ok {
			w.compared = now
			w.settle(SignList, signs, true)
		}
	}
	w.renew(ctx)
}

// note keeps since when each resource has been served.
func (w *Watch) note(served map[string]int) {
	for name := range served {
		if w.served[name].IsZero() {
			w.served[name] = time.Now()
		}
	}
	maps.DeleteFunc(w.served, func(name string, _ time.Time) bool { return !has(served, name) })
}

func (w *Watch) suspicious(sign Sign) bool {
	for k := range w.suspects {
		if k.sign == sign {
			return true
		}
	}
	return false
}

// settle takes the signs of one look. Those that need confirming count at the second look
// in a row.
func (w *Watch) settle(sign Sign, signs map[key]Rival, confirm bool) {
	for _, r := range w.merge(sign, signs, confirm) {
		w.opts.Log.Error("another device plugin is on this node", "resource", r.Resource, "sign", string(r.Sign), "problem", r.Message)
		w.opts.Found(r)
	}
}

// merge makes the signs of one kind those that are known, and returns those that were not.
// What is certain, or gone, is a suspect no more.
func (w *Watch) merge(sign Sign, signs map[key]Rival, confirm bool) (news []Rival) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, r := range signs {
		known, certain := w.found[k]
		first, seen := w.suspects[k]
		switch {
		case certain:
			r.Since = known.Since
		case confirm && !seen:
			w.suspects[k] = time.Now()
			continue
		default:
			if r.Since.IsZero() {
				r.Since = first
			}
			delete(w.suspects, k)
			news = append(news, r)
		}
		w.found[k] = r
	}
	gone := func(k key) bool { return k.sign == sign && !has(signs, k) }
	maps.DeleteFunc(w.found, func(k key, _ Rival) bool { return gone(k) })
	maps.DeleteFunc(w.suspects, func(k key, _ time.Time) bool { return gone(k) })
	return news
}

// sockets are the signs of other agents.
func (w *Watch) sockets(ctx context.Context) map[key]Rival {
	signs := map[key]Rival{}
	for _, s := range w.opts.Sockets(ctx) {
		who := "another accelmux"
		if s.PID > 0 {
			who = fmt.Sprintf("another accelmux, pid %d,", s.PID)
		}
		text := who + " with a state directory of its own registers other resources on this node (socket " + s.Path + ")"
		if s.Resource != "" {
			text = who + " with a state directory of its own serves " + s.Resource + ", too (socket " + s.Path +
				"): both give the same devices away; remove one of the two (two charts, or a service beside a DaemonSet), or have them take turns with --take-over and one --state-dir"
		}
		signs[key{SignSocket, s.Resource, s.Path}] = Rival{Sign: SignSocket, Resource: s.Resource, PID: s.PID, Message: text}
	}
	return signs
}

// remove is what to do about a plugin that is not accelmux's.
const remove = ": is the vendor's own device plugin, or another accelmux, still on this node? Remove it, and this agent registers again; or give the resource another name"

// containers are the signs of containers that got units from somebody else. One that is
// known stays one until it is gone.
func (w *Watch) containers() map[key]Rival {
	signs := map[key]Rival{}
	for _, f := range w.opts.Unasked() {
		k := key{SignContainer, f.Resource, f.Unit + " " + f.Namespace + "/" + f.Pod}
		w.mu.Lock()
		_, known := w.found[k]
		w.mu.Unlock()
		if since := w.served[f.Resource]; !known && (since.IsZero() || f.Since.Sub(since) < w.opts.Timing.Settle) {
			continue
		}
		signs[k] = Rival{Sign: SignContainer, Resource: f.Resource, Since: f.Since, Message: fmt.Sprintf(
			"kubelet gave %s to container %s of pod %s/%s without asking this agent: another device plugin serves %s, too%s",
			f.Unit, f.Container, f.Namespace, f.Pod, f.Resource, remove)}
	}
	return signs
}

// lists are the signs in kubelet's lists; not ok if there is nothing to go by.
func (w *Watch) lists(ctx context.Context, served map[string]int) (signs map[key]Rival, ok bool) {
	signs = map[key]Rival{}
	units := 0
	for _, n := range served {
		units += n
	}
	if units == 0 || units > maxUnits {
		return signs, true
	}
	listed := w.listed(served)
	kubelets, err := w.opts.Allocatable(ctx, func(name string) bool { return has(served, name) })
	if err != nil {
		w.opts.Log.Debug("compare kubelet's lists with ours", "error", err)
		return nil, false
	}
	after := w.listed(served) // what changed meanwhile does not count
	w.empty = map[string]bool{}
	for name, ours := range listed {
		var strange, missing []string
		for id := range kubelets[name] {
			if !has(ours, id) && !has(after[name], id) {
				strange = append(strange, id)
			}
		}
		for id, healthy := range ours {
			if healthy && after[name][id] && !kubelets[name][id] {
				missing = append(missing, id)
			}
		}
		w.empty[name] = len(kubelets[name]) == 0
		if text := difference(strange, missing); text != "" {
			signs[key{SignList, name, text}] = Rival{
				Sign: SignList, Resource: name, Message: "kubelet's list of " + name + " is not this agent's: " + text + remove,
			}
		}
	}
	return signs, true
}

func (w *Watch) listed(served map[string]int) map[string]map[string]bool {
	all := make(map[string]map[string]bool, len(served))
	for name := range served {
		all[name] = w.opts.Listed(name)
	}
	return all
}

func has[K comparable, T any](all map[K]T, name K) bool {
	_, ok := all[name]
	return ok
}

// difference is what is different in words; "" for nothing.
func difference(strange, missing []string) string {
	var parts []string
	for _, p := range []struct {
		what string
		ids  []string
	}{{"it has", strange}, {"it lacks", missing}} {
		if len(p.ids) == 0 {
			continue
		}
		slices.Sort(p.ids)
		text := p.what + " " + strings.Join(p.ids[:min(len(p.ids), maxNamed)], ", ")
		if more := len(p.ids) - maxNamed; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}
