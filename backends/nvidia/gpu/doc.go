// Package gpu has the record of each GPU: what NVML reported last, the faults that events
// reported, and the evidence that they are cleared. From them it makes the verdict about the
// health of the GPU and of its MIG devices.
//
//	NVML, sysfs, procfs ──► Take ──► records ──► Judge ──► Verdicts
//	events ──────────────────────────────────────┘
//
// It calls no NVML; package xid has the meanings of XIDs.
package gpu
