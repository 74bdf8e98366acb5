// Package sdk is for backends in Go: it has the interfaces that a backend implements and
// [Serve], which runs an implementation as a backend process.
//
// A backend implements [Backend], and further interfaces for further abilities, which its
// manifest then lists:
//
//	Configurer  has settings, or needs the host's paths
//	Preparer    readies devices before a container starts
//	Releaser    ends what Prepare did for a holder that is gone
//	Resetter    can recover faulted devices
//	Sampler     has telemetry
//
// A call that the type does not implement returns Unimplemented.
//
// [Device], [Health], [Edits], [Metric] and other types are the contract's own
// messages under shorter names. Their fields, rules and bounds are documented in
// proto/accelmux/backend/v1/backend.proto and by
//
//	go doc github.com/accelmux/accelmux/proto/accelmux/backend/v1.Device
//
// A program is called accelmux-backend-NAME and has one statement in its main:
// os.Exit(sdk.Serve(backend)). The package's example is complete.
//
// # The life of a backend
//
// Identity is called once, at the start. Configure is called before the
// first Watch and again on every change; Configure calls never overlap. Watch is the backend's
// loop. It runs once in a process, not once in a stream: it starts when the core first requests
// the inventory, continues while the core reconnects, and its context ends when the process
// does. If it returns earlier, the stream ends with its error and the next stream starts it
// again. [Poll] is a ready-made loop.
//
// The loop shows by [Reporter.Beat] that it is alive; the server sends a heartbeat only after
// such a call. So a loop that hangs in a driver is noticed, even though the server still
// answers.
//
// # What Serve takes care of
//
//   - The handshake, gRPC only, messages of up to 8 MiB in both directions. The core's own
//     bound for the content of a message, 20 MiB of its memory, is in backend.proto.
//   - News. A loop publishes whole inventories as often as it likes; one that equals
//     the one before is not sent.
//   - Standard output. The handshake is the only thing that may ever appear
//     there, so file descriptor 1 points to /dev/null before the backend gets
//     control, also for C code that writes to it without asking.
//   - Standard error is the log. [Logger], slog's default logger and the log
//     package write there; the first two keep their levels in the core.
//   - The end: SIGTERM, SIGINT, or the death of the parent cancel the loop's
//     context, and the process ends within 1.5 s.
//   - Panics. One in a call is answered as Internal and logged with its stack;
//     the process goes on. One in the loop is logged with its stack and ends
//     the process with exit code 2, since it may have left any state.
//
// # A module of your own
//
// The package is in the module github.com/accelmux/accelmux. A program outside of it
// that imports the package compiles gRPC, protobuf and what these two import: its go.mod
// gets this module and 7 others (golang.org/x/{net,sys,text,time}, grpc, protobuf and
// genproto's rpc), its go.sum 20 to 40 lines. client-go, cel-go and NVIDIA's toolkit,
// which other packages of the module import, are neither downloaded nor compiled.
// They count only in a module that requires one of them itself: Go then selects at least
// the version that this module requires. Give the backend a go.mod of its own there.
//
// The package is independent of hardware and of Kubernetes.
package sdk
