// Package hostile is a backend that misbehaves: it does not speak the contract, or
// does and hangs, crashes, floods the core or lies to it. It is for tests and
// benchmarks that watch what the core makes of it, and what the others notice.
//
// Which misdeed it is up to, its environment says ([MisdeedEnv]), and as long as a
// file is there ([WhileEnv]); before, between and after that it is a sound backend
// of two devices. The program is test/hostile/hostilebackend; it is built without
// the SDK, which would keep it from most of this.
//
// Its misdeeds are in a file a group: what it does instead of a handshake (start.go),
// calls that it does not answer or dies of (calls.go), a process that is stuck (stuck.go),
// floods (floods.go), lies about its devices (lies.go), and breaches of single rules
// (breaches.go).
package hostile
