// Package device is the backend for devices that are described, not programmed: each kind of
// device is a description in the settings, or a preset that comes with the backend.
// docs/device.md documents both for users.
//
//	description ──► compiled ──┐
//	/sys, /dev ──► match ──► source ──► engine ──► vendor ──► the core
//	                           ▲           ▲
//	                       measure      Prepare, Reset
//
// Packages match and expression read the kernel's files, and package description has the
// language. Package engine monitors the devices; here each kind is one of its drivers. This
// package evaluates a description for an object (source.go, edits.go, health.go), judges what
// changes over time (vendor.go), and does what a description allows to be done (reset.go,
// prepare.go).
package device
