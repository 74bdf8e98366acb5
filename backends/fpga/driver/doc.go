// Package driver defines what the backend needs of a kernel driver of FPGAs: listing cards,
// reading sensors, programming and resetting regions. Each driver is implemented in a
// package of its own; this one has the types that they share.
//
//	Board, which is lost as a whole
//	  └─ Card, a PCI function or what stands for one
//	       ├─ management: nodes by which the card is programmed
//	       └─ Region: what a container is given, programmed and reset alone
//
// A driver reads sysfs at each call, caches nothing, and takes as long as the kernel does: do
// not call it from a loop that must not block.
package driver
