// Package status is how people and programs look into a running agent: a small
// HTTP server on a unix socket in the state directory, and the client that the
// commands `accelmux status` and `accelmux devices` use.
//
// The package defines what is shown and carries it; the agent fills it in. It
// never changes anything in the agent.
package status
