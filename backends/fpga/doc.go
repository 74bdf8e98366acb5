// Package fpga is the backend for FPGAs: Intel's cards, AMD's Alveo, and what Linux has
// an FPGA manager for.
//
//	driver ──► source ──► engine ──► vendor ──► the core
//	                        ▲
//	Prepare ────────────────┘
//
// The packages below it read, program and reset cards by one kernel driver each. Package
// engine monitors them: scans, faults, resets, telemetry. This package has what all FPGAs
// have in common: what a container gets (source.go), what a fault means (health.go), what
// is listed (devices.go), and how a region gets the file that a container asks for
// (prepare.go).
//
// The package opens no device and parses no file of the kernel.
package fpga
