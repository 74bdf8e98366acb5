package sandbox

import (
	"context"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/text"
	"github.com/accelmux/accelmux/core/wake"
)

// settlePauses is for how many times Settle a watch waits for a moment in which no file appears. A process is also not
// replaced before it is as old as that: hardware that comes and goes must not keep the node busy with starts.
const settlePauses = 10

// Watch waits until files appear that the program was given to open or to write to, calls tell with their paths, and
// returns. It does not need the processor before. It also returns when ctx ends. Wait must have returned without an error.
// What a process of another container is given appears there, and is watched for there.
func (s *Start) Watch(ctx context.Context, tell func(Message)) {
	if s.messages == nil { // without restrictions
		return
	}
	if s.box.Launcher != "" {
		s.forward(ctx, tell)
		return
	}
	needs := s.box.Paths.at(s.box.Given).appearing(s.box.Paths)
	if needs.Empty() {
		return
	}
	a := appearances{needs: needs, expand: needs.expand, had: s.had, settle: s.box.Settle, began: time.Now()}
	e := openEvents()
	defer e.close()
	a.run(ctx, e, tell)
}

// forward calls tell with the messages of a launcher.
func (s *Start) forward(ctx context.Context, tell func(Message)) {
	defer context.AfterFunc(ctx, func() { _ = s.report.Close() })()
	for {
		var m Message
		if s.messages.Decode(&m) != nil { // the program has ended
			_ = s.report.Close()
			return
		}
		tell(m)
	}
}

// appearances looks for files that appear.
type appearances struct {
	needs  Needs
	expand func() map[string]found // that of needs
	had    existing
	settle time.Duration
	began  time.Time // when the program did
}

func (a *appearances) run(ctx context.Context, e *events, tell func(Message)) {
	var interval <-chan time.Time
	for settled := false; ; settled = true {
		all := a.expand()
		if e.watch(all) { // there is no event of what appeared before a watch began
			if all = a.expand(); e.watch(all) {
				wake.Send(e.changed)
			}
		}
		if e.err != nil && interval == nil {
			tell(Message{Unwatched: text.Printable(e.err.Error(), 512)})
			ticker := time.NewTicker(settlePauses * a.settle)
			defer ticker.Stop()
			interval = ticker.C
		}
		appeared := a.needs.existing(all).beyond(a.had)
		if len(appeared) > 0 && settled {
			tell(Message{Appeared: text.Printable(strings.Join(appeared, " "), 1024)})
			return
		}
		if len(appeared) == 0 {
			select {
			case <-ctx.Done():
				return
			case <-e.changed:
			case <-interval:
			}
		}
		if !a.quiet(ctx, e.changed) {
			return
		}
	}
}

// quiet waits until nothing has changed for a while, so that udev has had the time to set modes and to make links, and a
// driver to make all its nodes. It returns false if ctx ended before.
func (a *appearances) quiet(ctx context.Context, changed <-chan struct{}) bool {
	limit := time.NewTimer(settlePauses * a.settle)
	defer limit.Stop()
	pause := func() time.Duration { return max(a.settle, settlePauses*a.settle-time.Since(a.began)) }
	quiet := time.NewTimer(pause())
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-quiet.C:
			return true
		case <-limit.C:
			return true
		case <-changed:
			quiet.Reset(pause())
		}
	}
}
