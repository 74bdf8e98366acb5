package agent

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/takeover"
	"github.com/accelmux/accelmux/test/patience"
)

// Verifies that an agent on standby does not take it that another one serves the node while
// something has the lock that no agent answers for: it reports that as a problem, until it
// is over.
func TestStandbyWithoutAnActiveAgent(t *testing.T) {
	dir, err := os.MkdirTemp("", "a") // short, for the socket
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	release, err := takeover.Lock(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	standby := &turns{since: time.Now(), opts: Options{StateDir: dir, Log: slog.New(slog.DiscardHandler)}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- standby.queue(ctx) }()
	patience.Until(t, "there is a problem", func() bool { return len(standby.Report().Problems) > 0 })
	report := standby.Report()
	if want := "no agent serves this node, and this one cannot: another agent"; !strings.HasPrefix(report.NotReady[0], want) ||
		!strings.Contains(report.NotReady[0], dir) || report.Problems[0].Message != report.NotReady[0] {
		t.Errorf("not ready: %q, problems: %v", report.NotReady, report.Problems)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if report := standby.Report(); len(report.Problems) > 0 || !strings.HasPrefix(report.NotReady[0], "this agent is on standby, and no other") {
		t.Errorf("not ready: %q, problems: %v", report.NotReady, report.Problems)
	}
	if err := standby.post.Close(); err != nil {
		t.Error(err)
	}
}
