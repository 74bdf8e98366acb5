// Package edits says what a container gets with a GPU or a MIG device: device
// nodes, the driver's libraries and programs, and hooks.
//
// In the mode "cdi" the lists come from pkg/nvcdi of nvidia-container-toolkit; in
// the mode "runtime" the container gets device nodes alone, and the NVIDIA
// runtime on the node adds the rest by NVIDIA_VISIBLE_DEVICES. README.md, beside
// this file, is the reference for operators.
//
// A [Maker] makes the edits of all devices of one [driver.Snapshot] at once. That
// takes tens of milliseconds of reading directories, so it is for changes of the
// inventory, never for a request. It calls no NVML: what nvcdi wants to know of a
// GPU is answered from the snapshot, so a driver that hangs cannot hang it, and
// one dead GPU costs one GPU.
//
// Edits that lack a device node are an error, never half an answer. Paths in
// edits are the host's own, whatever the paths are by which this process sees
// the same files.
package edits
