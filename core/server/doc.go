// Package server opens the sockets at which others reach the agent, and answers HTTP on them.
//
// Every HTTP server of the agent is an [HTTP], and so has the same bounds on connections, sizes and
// times, which docs/security.md lists. Every unix socket is made by [Unix], and is for the agent's own
// user. The handlers, and who may call them, are the caller's.
package server
