// Package amd is the backend for AMD GPUs of the kernel driver amdgpu, whole or in
// partitions. It needs no library of AMD: everything is in sysfs, KFD and DRM. The loop is
// that of backends/engine; this package has what is AMD's own:
//
//	source   the engine's driver: scans with gpu, reads error counters with ras,
//	         measures with telemetry, resets with reset
//	checks   KFD's generation and AMD's device metrics exporter, read at an interval
//	events   KFD's event streams (smi), and uevents
//	vendor   what is a fault, and what the core gets for a device
//	partitions, make   partitions of all compute modes, and the switch to one, with the strategy dynamic
//
// A unit of the engine is a card, a device one of its partitions; a card that is not
// partitioned has one. The package parses no files of the kernel (packages below it do), and
// opens no device but /dev/kfd, for events.
package amd
