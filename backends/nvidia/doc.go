// Package nvidia is the backend for NVIDIA GPUs.
//
//	NVML ──► driver ──► source.Scan ──► gpu.Reading ──► engine's roster ──► vendor ──► the core
//	events ─► monitor: read that GPU ─► gpu.Memory, of the unit ────────────────┘
//
// Package engine has the loop: scans, missing GPUs, lasting faults, resets, telemetry. This package has the
// parts for NVIDIA. A source reads all GPUs in a scan, and remembers nothing of them. The monitor receives events,
// reads their GPUs at once, and has the loop give both to the memory of the unit. The vendor judges a GPU by its memory, and
// describes it for the core. The connection keeps the driver and its stream of events open between scans and over changes of
// settings.
//
// The package calls no NVML itself: package driver does. Package gpu has what is known of one GPU and its health, package xid
// the meanings of XIDs, and package edits finds the device nodes.
package nvidia
