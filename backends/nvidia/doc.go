// Package nvidia is the backend for NVIDIA GPUs.
//
//	NVML ──► driver ──► source ──► records, judge ──► engine ──► the core
//	events ──► monitor ───┘            ▲                 ▲
//	                                  xid          vendor, devices
//
// Package engine has the loop: scans, lasting faults, resets, telemetry. This package has the
// parts for NVIDIA. A source reads the GPUs in a scan, judges their health by the values read
// and by earlier events, and returns units and devices. The vendor describes them for the core.
// A monitor has what outlives a scan: the open driver, its events, and the record of each GPU.
//
// The package calls no NVML itself: package driver does. Package xid has the meanings of XIDs,
// and package edits finds the device nodes.
package nvidia
