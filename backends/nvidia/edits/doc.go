// Package edits makes the container edits of a GPU or a MIG device: device nodes,
// the driver's libraries and programs, and hooks.
//
// In the mode "cdi" the lists come from pkg/nvcdi of nvidia-container-toolkit; in
// the mode "runtime" the container gets only device nodes, and the NVIDIA runtime
// on the node adds the rest by NVIDIA_VISIBLE_DEVICES; in the mode "tegra" the lists
// are those that a Tegra's system has. README.md, beside this file, is the reference
// for operators.
//
// A [Maker] makes the edits of all devices of one [driver.Snapshot] at once. That
// takes tens of milliseconds of reading directories, so it is for changes of the
// inventory, never for a request. It calls no NVML: nvcdi reads the GPUs from the
// snapshot. So a driver that hangs cannot block it, and a failing GPU does not
// affect the others.
//
// A missing required device node is an error, never a gap in the edits. Paths in edits
// are the host's, even if this process sees the files at other
// paths.
package edits
