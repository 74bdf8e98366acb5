package agent

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/test/patience"
)

// Verifies that what a round found out about health is written, and that the writer ends
// when it is told.
func TestHealthIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "health")
	judge, err := health.Open(health.Options{Path: path, BootID: "boot"})
	if err != nil {
		t.Fatal(err)
	}
	a := &Agent{health: judge, unsaved: make(chan struct{}, 1)}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.keepHealth(ctx) }()
	judge.Judge(flapped(many(3), 1, true))
	poke(a.unsaved)
	patience.Until(t, "the state of health is written", func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := judge.Close(); err != nil {
		t.Error(err)
	}
}
