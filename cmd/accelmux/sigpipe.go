package main

import (
	"os"
	"os/signal"
	"syscall"
)

// outlivePipes makes a write to a closed pipe on standard output or error return an error
// instead of killing the process (see package os/signal, SIGPIPE). stop restores the default.
// The signal itself is ignored: a write to any closed connection sends it, too.
func outlivePipes() (stop func()) {
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, syscall.SIGPIPE)
	return func() { signal.Stop(ignored) }
}
