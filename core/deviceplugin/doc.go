// Package deviceplugin speaks kubelet's device plugin API (v1beta1) for every
// resource of a [resource.Table].
//
// A [Unit] is what kubelet counts as one device: a device, or a replica of one. An advert is
// one resource: its current list of units, and the instances that send the list. An instance
// is one gRPC server on one unix socket. It serves before it is registered, by a call of
// Register or by kubelet's plugin watcher, which finds its socket in plugins_registry. A
// socket name is used once: an instance that failed is replaced, not repaired. A resource is
// in one of these states ([State]):
//
//	      has a unit, or is allocated  kubelet accepts
//	empty ──────────────► waiting ───────────────────────► registering
//	                        ▲                                   │ Register answered,
//	                        │ refused, or no stream in time     │ or: the file exists (watcher)
//	                        ├──────────────────────────── connecting
//	                        │ the stream broke, the socket      │ ListAndWatch
//	                        │ was removed, kubelet restarted    ▼
//	                        └──────────────────────────────  serving
//
// An instance that is replaced (options changed, kubelet restarted) sends its lists until
// kubelet opens a stream of the successor. It is superseded then, so a change of options
// costs no capacity. A superseded instance keeps its stream open, without further lists,
// until kubelet closes it: up to 1.36, kubelet drops the newest connection of a resource when
// any stream of the resource ends. Options are therefore only added, never removed, which
// keeps these instances few. Past 64 of them the oldest is closed before the next one is
// registered.
//
// A resource is registered when it has its first unit, or when containers hold units of it:
// without a registration, kubelet forgets the resource after some minutes and does not
// start these containers again. It then stays registered, with an empty list if it left the
// table, until the agent ends or 64 other resources have left the table after it.
//
// Calls are answered from memory. [Lifecycle] is the only way out of this package for them.
// The package does not judge health, write CDI files or record who holds a device.
package deviceplugin
