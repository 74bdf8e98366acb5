// Command accelmux is the node agent: one process for every accelerator of a
// node, with each vendor's driver code in a backend process of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/accelmux/accelmux/cmd/arguments"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// usageError is a wrong use of a command whose exit status 1 is an answer.
type usageError struct{ error }

// run is main with an exit status: 0 for success, 1 for an error, 2 for a usageError, 130 when
// the user interrupted a command.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	root := newRootCommand()
	root.SetArgs(args)
	err := arguments.CheckCommand(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return 130
	}
	fmt.Fprintln(os.Stderr, "accelmux:", err)
	if errors.As(err, new(usageError)) {
		return 2
	}
	return 1
}
