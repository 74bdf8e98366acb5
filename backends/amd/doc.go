// Package amd is the backend for AMD GPUs of the kernel's driver amdgpu, whole or in
// partitions. It needs no library of AMD's: all is in sysfs, KFD and DRM.
//
//	sysfs, KFD ──► gpu ──► roster ──► judge ──► devices ──► the core
//	counters ──► ras ─────────────────►  ▲          ▲
//	KFD's events, uevents, exporter ─────┘        nodes
//
// A loop (watch.go) looks at the GPUs when the kernel says that something changed,
// and now and then. Reading takes as long as a sick driver wants, so it is done
// beside the loop: one look at the inventory at a time, and for each card one
// reading of its counters. What comes of it goes into the roster, which remembers
// every card that was there, so that a dead one keeps its identity and the others
// never notice. The judge says how a card is; devices are made of that.
//
// The package parses no file of the kernel's (that is for the packages below it) and
// opens no device but for KFD's events.
package amd
