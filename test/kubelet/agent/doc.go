// Package agent starts the accelmux program as a process, as an operator would,
// and looks at it from the outside: its exit, its log, what it answers over its
// admin socket, the processes it started and what it left behind. It knows
// nothing of kubelet.
package agent
