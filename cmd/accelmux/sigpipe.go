package main

import (
	"os"
	"os/signal"
	"syscall"
)

// outlivePipes has the process outlive whoever reads what it writes, which by default
// ends with the first write to standard output or error after that reader has gone. Such
// a write is an error then. The signal itself tells nothing, since it comes with any
// connection that the other side has closed, too. stop has it as before.
func outlivePipes() (stop func()) {
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, syscall.SIGPIPE)
	return func() { signal.Stop(unread) }
}
