// Package driver is what NVIDIA's driver says of the GPUs of this node, as plain
// values. It is the only caller of NVML (libnvidia-ml.so.1, through go-nvml).
//
// A [Driver] is opened, asked and closed; after a driver reload it is opened
// again. [Driver.Snapshot] says what there is and how it is, [Driver.Listen]
// what happens, [Driver.Telemetry] what is measured, [Driver.Processes] who uses
// a GPU.
//
// While it is open, the driver keeps its device nodes open: the kernel module
// cannot be unloaded and a GPU cannot be reset. GPUs that come or go are seen
// when it is opened again.
//
// Three rules hold everywhere:
//
//   - One dead GPU costs one GPU. An error of any call on one GPU is in that
//     GPU's Err, with all that is still known of it; the others are untouched.
//   - What a GPU or a driver does not have is absent (nil, empty or -1), never
//     zero, and no error. A function that the library lacks is never called.
//   - No call waits for the hardware longer than its deadline. A call that hangs
//     in the driver keeps one thread, and what it was asked of (one GPU, or the
//     system as a whole) answers [ErrNoAnswer] until it returns; nothing piles
//     up.
//
// The package decides nothing: which event is a fault and what a device is
// called is for its callers. It reads neither sysfs nor the devices' nodes.
package driver
