// Package supervisor starts, watches, restarts and stops the node's backend
// processes, and hands what they report to a [Sink].
//
// Each backend has one goroutine (unit) that decides, and one goroutine for each
// of its processes (instance) that does the talking. A process goes one way:
//
//	checking ─► starting ─► configuring ─► running ─► stopping ─► gone
//	(program)   (handshake,  (schema,       (Watch)    (SIGTERM,
//	             Describe)    Configure,                SIGKILL)
//	                          first inventory)
//
// and what went wrong on the way decides how long the backend waits before the
// next one:
//
//	           ┌────────────── next process ◄──────────────┐
//	           ▼                                           │ retry time, another
//	checking ... running                                   │ program file, another
//	   │ │ │        │                                      │ spec
//	   │ │ │        └─ exit, hang, broken rule ─► backoff ─┤
//	   │ │ └─ the same, too often in a window ─► quarantined  (half-open: one try,
//	   │ └─ settings refused ─► misconfigured ─────────────┤   then longer)
//	   └─ program missing or unsafe ─► unavailable ────────┘
//
// A start for which the node lacks files, memory or processes is tried again soon, and
// counts for nothing.
//
// A changed command, environment or heartbeat replaces the process: the new one
// has delivered an inventory before the old one is stopped. Changed settings go to
// the running process. Whatever the new spec's fate, the old process or the old
// settings stay in force until the new ones work.
//
// A Prepare, Release or Reset that overruns its deadline is cancelled and fails
// alone: the process goes on, and the device's next call waits a little.
//
// Nothing a backend does may block, crash or fill up the core: every step has a
// deadline, its log is bounded before it is parsed, its processes are counted, and they are
// ended by signals, never by a request: the process group, and with a [Reaper] also
// processes that left it. Two things it cannot do. It cannot end a process that hangs in
// the kernel: that is reported, and the process is not replaced before it is gone. It
// cannot keep process IDs for others while a backend uses them up: that would need the
// right to create a cgroup.
//
// The package does not judge what is reported (package inventory does) and does
// not choose what runs (package agent does).
package supervisor
