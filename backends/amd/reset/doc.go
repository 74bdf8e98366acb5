// Package reset resets AMD GPUs: by the driver's own recovery, which debugfs offers, or
// through the kernel's PCI subsystem. GPUs that XGMI joins to a hive are reset together,
// and so are the partitions of a GPU.
package reset
