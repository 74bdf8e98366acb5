package status

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/patience"
)

// Verifies that the agent says that it is alive while it can open no file.
func TestAliveWithoutDescriptors(t *testing.T) {
	dir := serveStatus(t)
	question, err := NewClient(dir).askAlive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = question.Close() }()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	err = question.answer()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Error(err)
	}
	if err := NewClient(dir).Alive(t.Context()); err != nil {
		t.Error(err)
	}
}

// Verifies that an agent that is stuck, and one that is not there, are not alive.
func TestNotAlive(t *testing.T) {
	if err := NewClient(t.TempDir()).Alive(t.Context()); err == nil {
		t.Error("an agent that is not there is alive")
	}
	release := make(chan struct{})
	stuck := stuck{release: release}
	dir := serveStatusOf(t, stuck)
	t.Cleanup(func() { close(release) })
	client := NewClient(dir)
	client.patience = 1
	patience.Until(t, "the socket is there", func() bool {
		question, err := client.askAlive(t.Context())
		if err == nil {
			_ = question.Close()
		}
		return err == nil
	})
	if err := client.Alive(t.Context()); err == nil {
		t.Error("an agent that is stuck is alive")
	}
}

// stuck is an agent whose parts hang.
type stuck struct {
	fixed
	release chan struct{}
}

func (s stuck) Alive() { <-s.release }
