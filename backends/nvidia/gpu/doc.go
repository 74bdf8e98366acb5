// Package gpu keeps a record of each GPU: the last values from NVML, the faults that events
// reported, and the evidence that they are cleared. From these it derives the health of the GPU
// and of its MIG devices, the verdict.
//
//	NVML, sysfs, procfs ──► Take ──► records ──► Judge ──► Verdicts
//	events ──────────────────────────────────────┘
//
// It does not call NVML. Package xid has the meanings of XIDs.
package gpu
