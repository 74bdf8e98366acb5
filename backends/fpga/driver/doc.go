// Package driver is what the kernel's drivers of FPGAs look like to the backend: which
// cards there are and how they are, and how a region of one is measured, programmed
// and reset. Each driver is a package of its own; this one has only the terms that they
// share.
//
//	Board, which is lost as a whole
//	  └─ Card, a PCI function or what stands for one
//	       ├─ management: nodes by which the card is programmed
//	       └─ Region: what a container is given, programmed and reset alone
//
// A driver reads sysfs each time that it is asked, keeps nothing of it, and takes as
// long as the kernel does: who calls one keeps off a loop that must not wait.
package driver
