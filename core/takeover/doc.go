// Package takeover lets the agents that share a state directory take turns, so
// that one can be replaced by another without a gap.
//
// One of them is active: it holds the directory's lock, and listens on a socket
// in it. The others are connected to that socket, each in a [Place]:
//
//	successor                          active
//	   │ connects                        │
//	   │ "ready" ───────────────────────►│ finishes what it is about, saves
//	   │◄────────────────────── "yours"  │ and lets go of the lock
//	   │ takes the lock, loads, serves   │ goes on serving what it served
//	   │ "taken" ───────────────────────►│ ends
//
// A successor that is gone before it said "taken" leaves the directory to whoever takes
// it; until somebody has, the one before goes on serving.
//
// An active agent that is about to end says "leaving" first, and waits a while
// for one that is ready. If it dies, its connections break and the kernel frees
// the lock: whoever waits takes it.
//
// The messages are one JSON object a line. Unknown fields are ignored, so that
// agents of different versions understand each other.
//
// Each end checks that the other one is an agent, by the credentials of the socket and the
// program of the process: a backend of this node may be able to use the socket and the
// lock, too.
//
// The package does not know what an agent is, or when it is ready.
//
// Each says who it is when the connection begins, so that both can tell that there are
// two; one that takes no turns says so and leaves.
package takeover
