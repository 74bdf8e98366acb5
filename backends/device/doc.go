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
// prepare.go, bind.go), with a record of it on disk (record.go). Three rules of the kernel hold for all kinds: IOMMU
// groups (group.go), what is in another network namespace (moved.go), and hardware without its driver (unserved.go).
//
// At rest only the files of health are read; they stay open, up to 2,048 of a kind, until the next scan. Of
// 1,024 devices with two such files each a reading takes 6 ms of a core's time (14 ms beside other programs), and the
// engine 2 to 3 ms; of 4,096, whose files do not all stay open, five times that. A scan of everything takes 100 to 150 ms.
// test/bench has the idle CPU.
package device
