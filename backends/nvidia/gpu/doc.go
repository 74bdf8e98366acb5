// Package gpu has what NVIDIA's driver and the kernel's files say of one GPU at one moment, a [Reading], and what a backend
// remembers of the GPU beside its last reading, a [Memory]: the faults that events reported, and the evidence that they are
// cleared. From these it judges the health of the GPU and of its MIG devices.
//
//	NVML, sysfs, procfs ──► Identify ──► Reading ──► Memory ──► Health, Partial, Instance
//	events ──────────────────────────────────────────┘
//
// It does not call NVML. Package xid has the meanings of XIDs.
package gpu
