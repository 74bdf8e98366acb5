// Package deviceplugin speaks kubelet's device plugin API (v1beta1) for every
// resource of a [resource.Table].
//
// A resource is an advert: what kubelet is told now, and the instances that tell
// it. An instance is one gRPC server on one unix socket. It serves before kubelet
// hears of it, its socket name is never used again, and it is replaced rather
// than repaired:
//
//	      has a unit, or is held       kubelet accepts
//	empty ──────────────► waiting ───────────────────────► registering
//	                        ▲                                   │ Register answered,
//	                        │ refused, or no stream in time     │ or: the file is there (watcher)
//	                        ├──────────────────────────── connecting
//	                        │ the stream broke, the socket      │ ListAndWatch
//	                        │ vanished, kubelet is a new one    ▼
//	                        └──────────────────────────────  serving
//
// A successor is connected before its predecessor goes silent, so a change of
// options costs no capacity. The predecessor then keeps its stream open, mute,
// until kubelet closes it: up to 1.36 the end of any stream of a resource made
// kubelet drop the newest connection. That is why options only ever gain: a
// resource needs at most a few such changes in a kubelet's life. Past 64 of them
// the oldest is closed, before the next successor is registered.
//
// A resource is registered when it first has a unit, or if containers hold some:
// some minutes after the last registration kubelet would not start these again.
// From then on it stays, with an empty list if it left the table, until the agent
// ends, or 64 others have left the table after it.
//
// Calls are answered from memory. They leave this package through [Lifecycle]
// alone. The package does not decide what is healthy, write CDI files or know
// who holds a device.
package deviceplugin
