// Package conformance checks a backend program against the contract of
// proto/accelmux/backend/v1: it starts the program as the core does, makes the calls that
// the core makes, and judges each rule of the contract by what comes back.
//
// [Check] starts the program several times, one after the other: by hand, for most of the
// rules; below a parent process that is killed; with host paths without hardware; and with
// a device tree whose files hang when they are opened. What Prepare, Release and Reset do
// may disturb hardware that is in use, so these rules are judged only with
// [Options.Exercise].
//
// The package knows of the hardware what the backend lists. It does not judge whether that
// is true.
package conformance
