// Package events writes Kubernetes Events about the agent's own Node: what an
// operator finds with `kubectl describe node`.
//
// An Event is a hint and nothing depends on it. Recording one never waits: a
// queue with a bound takes it, one goroutine writes it, each reason is limited in
// its rate, and an Event that was written before is counted up instead of written
// again. While the API server is away or forbids it, Events are dropped, but the
// newest is written when it may be again. The log tells of the first that could not be
// written, and when they are written again, how many were lost; the others are in the log
// at level debug.
//
// The package does not decide what is worth an Event.
package events
