package supervisor

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/plug"
)

// answering is a process whose server reports SERVING, and calls asked for each check.
type answering struct {
	watched
	asked func()
}

func (a *answering) CheckHealth(context.Context) error {
	a.asked()
	return nil
}

func (a *answering) Exited() <-chan struct{} { return nil }

func (a *answering) LastLog() string { return "" }

// Verifies that a backend is not ended if its heartbeats have arrived but were not processed
// because this process did not run, and that one without heartbeats is, although its server
// answers.
func TestHeartbeatsThatWereNotTaken(t *testing.T) {
	for name, sent := range map[string]bool{"sent": true, "not sent": false} {
		t.Run(name, func(t *testing.T) {
			messages := make(chan plug.Message, 1)
			process := &answering{asked: func() {
				if sent {
					messages <- plug.Message{}
				}
			}}
			i := &instance{timing: &Timing{}, log: slog.New(slog.DiscardHandler), ctx: t.Context()}
			w := &watcher{
				instance: i, process: process, stream: &plug.Stream{Messages: messages},
				silence: time.NewTimer(time.Hour), deadline: time.Now(), limit: time.Second, running: true,
			}
			err := w.overdue()
			if sent && err != nil || !sent && (err == nil || !strings.Contains(err.Error(), "no heartbeat for 1s although its server answers")) {
				t.Errorf("the verdict is %v", err)
			}
			if sent && time.Until(w.deadline) < w.limit/2 {
				t.Errorf("the next message is due in %v", time.Until(w.deadline))
			}
		})
	}
}
