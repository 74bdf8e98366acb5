// Package launcher starts backend processes in another container of the agent's pod, so that a backend has the
// rights of that container and not the agent's.
//
// The two containers share one directory, and nothing else:
//
//	agent's container                      the backend's container
//	supervisor ─► relay ─► launcher.sock ───────────────► Serve ─► backend
//	                                                                      │
//	supervisor ◄──────────── backend's own socket in the directory ◄──────┘
//
// A relay is the child process that the supervisor signals and waits for. It sends the launcher the backend's
// environment and the descriptors of its output, and later signals. The launcher reports how the process ended, and
// the relay ends in the same way. If the relay is killed, or the launcher's container ends, the connection closes, and
// the other side ends, too. So the contract with the backend and its supervision are the same as for a process in the
// agent's container.
//
// What a backend is given are patterns, which are expanded in the launcher's container, with that container's mounts. It also
// reports files that appear there and that only another process can open.
//
// A connection is one process, or one search of the processes that have devices open, which the launcher's container may see
// and the agent's may not. Messages are JSON, one a packet of a socket of type SOCK_SEQPACKET (unix(7)).
package launcher
