// Package monitor keeps NVIDIA's driver open over scans and changes of settings, and receives its
// events.
//
//	NVML: XID, ECC …  ──► pending ──► Inbox.Urgent: their GPUs are read and judged
//	NVML: MIG         ──────────────► Inbox.Changed: all GPUs are scanned soon
//	stream ended, mended ───────────► Inbox.Lost: all GPUs are scanned at once
//
// It judges nothing: package gpu does.
package monitor
