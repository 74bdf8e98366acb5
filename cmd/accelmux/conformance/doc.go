// Package conformance checks a backend program against the contract of
// proto/accelmux/backend/v1: it starts the program and calls it as the core does, and gives
// a verdict on each rule of the contract.
//
// [Check] starts the program several times, one after the other: without the handshake's
// environment; without a sandbox, to compare, and in one of what its manifest has; normally, for most of the
// rules; below a parent process that is killed; with host paths without hardware; and with a device
// tree whose files hang when they are opened. The starts for most of the rules and without hardware are in
// the sandbox, the two below a helper are not: the kernel would end the program with its parent.
// Prepare, Release and Reset may disturb hardware in use: these rules are checked only with
// [Options.Exercise].
//
// The package knows only the hardware that the backend lists. It cannot check whether the list
// is correct.
package conformance
