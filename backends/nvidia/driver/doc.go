// Package driver reads NVIDIA's driver and returns the GPUs of this node as plain
// values. It is the only caller of NVML (libnvidia-ml.so.1, through go-nvml).
//
// A [Driver] is opened, read and closed; after a driver reload it is opened again.
// [Driver.Snapshot] returns the GPUs and their conditions, [Driver.Listen] their
// events, [Driver.Telemetry] measurements, [Driver.Processes] the processes that
// use a GPU.
//
// While a [Driver] is open, it has device nodes open: the kernel module cannot be
// unloaded and a GPU cannot be reset. GPUs that are added or removed are noticed
// when it is opened again.
//
// Three rules hold everywhere:
//
//   - A failing GPU does not affect the others. An error of any call on one GPU is
//     in that GPU's Err, with all that is still known of it.
//   - What a GPU or a driver does not have is absent (nil, empty or -1), never
//     zero, and no error. A function that the library lacks is never called.
//   - No call waits for the hardware longer than its deadline. A call that hangs
//     in the driver occupies one thread. Until it returns, further calls on the same
//     GPU (or on the system as a whole) return [ErrNoAnswer] and start no thread.
//
// The callers decide which event is a fault and what a device is called. The package
// reads neither sysfs nor the devices' nodes.
package driver
