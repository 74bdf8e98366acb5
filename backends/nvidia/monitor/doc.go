// Package monitor keeps NVIDIA's driver open between scans and over changes of settings, and
// receives its events.
//
//	XID, ECC error, …     ──► pending ──► Inbox.Urgent: their GPUs are read and judged
//	MIG devices change    ──────────────► Inbox.Changed: all GPUs are scanned soon
//	events may be missing ──────────────► Inbox.Lost: all GPUs are scanned at once
//
// Events may be missing after their stream has ended, and after NVML could not wait for events.
//
// It does not decide what an event means for the health of a GPU: package gpu does.
package monitor
