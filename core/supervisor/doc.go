// Package supervisor starts, monitors, restarts and stops the node's backend processes,
// and passes what they report to a [Sink].
//
// Each backend has one goroutine (backend.run) that decides, and one goroutine for each of
// its processes (instance.run) that communicates with it. A process passes through these
// states:
//
//	checking ─► starting ──► configuring ─► running ─► stopping ─► gone
//	(program,   (handshake)  (Configure,     (Watch)    (SIGTERM,
//	 manifest,                first                      SIGKILL)
//	 rights)                  inventory)
//
// What failed decides how long the backend waits before its next process:
//
//	           ┌────────────── next process ◄──────────────┐
//	           ▼                                           │ retry time, another
//	checking ... running                                   │ program file, another
//	   │ │ │        │                                      │ spec
//	   │ │ │        └─ exit, hang, violation ─► backoff ───┤
//	   │ │ └─ the same, too often in a window ─► quarantined  (half-open: one try,
//	   │ └─ settings refused ─► misconfigured ─────────────┤   then longer)
//	   └─ program or manifest missing or unsafe ─► unavailable
//
// While the node has a label that the manifest has in pausedWhile, the backend is paused: its process ends once its calls
// have ended, and the next one starts when the label changes, or the manifest.
//
// A start that fails because the node lacks files, memory or processes is retried soon and
// does not count as a failure.
//
// What a process may do is computed before it starts, from its manifest and the configuration, and nothing that it says
// changes that. A changed command, environment or heartbeat replaces the process, and so do settings that need more or
// less than it has, and files that appear and that only another process can open: the new process must deliver an
// inventory before the old one is stopped. Other settings go to the running process. The old process or the old settings
// stay in force until the new ones work. The settings that the program accepted last outlive it, and the agent: they are the
// fallback in its spec.
//
// A Prepare, Release or Reset that exceeds its deadline is cancelled and fails alone: the
// process keeps running.
//
// A backend cannot block, crash or exhaust the core: every step has a deadline, its log is
// bounded before it is parsed, its processes are counted, and they are ended by signals,
// never by a request: the process group, and with a [Reaper] also processes that left the
// group. Two limits remain. A process that hangs in the kernel cannot be ended: it is
// reported, and not replaced before it is gone. Process IDs cannot be reserved for others
// while a backend exhausts them: that needs the right to create a cgroup.
//
// The package does not validate inventories (package inventory does) and does not choose
// which backends run (package profile does).
package supervisor
