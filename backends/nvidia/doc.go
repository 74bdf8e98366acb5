// Package nvidia is the backend for NVIDIA GPUs.
//
//	NVML ──► driver ──► source ──► gpu.Records ──► units ──► engine ──► the core
//	events ──► monitor ───┘            │                       ▲
//	                                   └──► gpu.Verdicts ──► vendor
//
// Package engine has the loop: scans, lasting faults, resets, telemetry. This package has the
// parts for NVIDIA. A source reads all GPUs in a scan, or those of events at once, and has package
// gpu judge their health. The vendor describes them for the core, with the newest verdicts.
// What outlives a scan is in state.
//
// The package calls no NVML itself: package driver does. Package monitor keeps the driver open and
// receives its events, package xid has the meanings of XIDs, and package edits finds the device
// nodes.
package nvidia
