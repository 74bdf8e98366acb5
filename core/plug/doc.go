// Package plug is how a backend's program is run, by the agent and by tools alike:
//
//	Find ─────► Resolve ─────► Room.Start ─────► Connect ─────► Call, Watch ─────► End, Remove
//	(program,   (settings,     (sandbox, cgroup, (handshake,    (deadlines, limits  (process group,
//	 manifest)   rights)        pipes)            TLS, gRPC)     of messages)        orphans)
//
// It finds the program with its manifest in the backend directory and checks that only root, and the user of this process,
// can exchange either. What a process sends is bounded and made printable here. A process cannot block, crash or exhaust
// this one: each step has a deadline, and processes are ended by signals, never by a request.
//
// It does not decide what runs when: package supervisor does.
package plug
