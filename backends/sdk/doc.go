// Package sdk is what a backend in Go is made of: the interfaces it implements
// and [Serve], which turns an implementation into a backend process.
//
// A backend implements [Backend]. What it can do beyond that, it says by
// implementing further interfaces; the abilities in its description follow
// from them:
//
//	Configurer  has settings, or needs the host's paths
//	Needer      has settings that need more of the node than others
//	Preparer    readies devices before a container starts
//	Releaser    ends what Prepare did for a holder that is gone
//	Resetter    can recover faulted devices
//	Sampler     has telemetry
//
// A call that the type does not implement answers Unimplemented.
//
// [Device], [Health], [Edits], [Needs], [Metric] and other types are the contract's own
// messages under shorter names. Their fields, rules and bounds are documented in
// proto/accelmux/backend/v1/backend.proto and by
//
//	go doc github.com/accelmux/accelmux/proto/accelmux/backend/v1.Device
//
// A program is called accelmux-backend-NAME and has one statement in its main:
// os.Exit(sdk.Serve(backend)). The example of the package is a whole one.
//
// # The life of a backend
//
// Describe may be called at any time and must not touch hardware. Configure
// comes before the first Watch and again on every change; Configure calls never
// overlap. Watch is the backend's loop. It runs once in a process, not once in
// a stream: it starts when the core first asks for the inventory, goes on while
// the core reconnects, and is told to end, by its context, when the process
// ends. If it returns earlier, the stream ends with its error and the next
// stream starts it again. [Poll] is such a loop, ready made.
//
// The loop tells the core that it is alive by [Reporter.Beat]; the server sends
// a heartbeat only after such a call, so a loop that is stuck in a driver falls
// silent and is noticed, even though the server still answers.
//
// # What Serve takes care of
//
//   - The handshake, gRPC only, messages of up to 8 MiB in both directions.
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
//     the process with exit code 2, since nobody knows what state it left.
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
// The package knows nothing about hardware, and nothing about Kubernetes.
package sdk
