package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// output is a stream that a run tells on. When nobody reads it any more, as when it is a
// pipe to a program that has ended, the run is to end, too, and to clear up.
type output struct {
	to   io.Writer
	gone context.CancelCauseFunc
}

func (o output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if err != nil {
		o.gone(fmt.Errorf("nobody hears any more what is told: %w", err))
	}
	return n, err
}

// heard makes a context that ends by a signal which asks for the end, or with one of the
// two streams; stop takes back what it has changed.
func heard(ctx context.Context, out, errs io.Writer) (_ context.Context, told, wrong io.Writer, stop func()) {
	// A write to a pipe without a reader is an error then, and not the end of the process.
	// The signal itself says nothing: it comes with a write to any socket, too, and agents
	// close theirs all the time.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	ctx, free := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, output{out, cancel}, output{errs, cancel}, func() {
		cancel(nil)
		free()
		signal.Stop(pipes)
	}
}
