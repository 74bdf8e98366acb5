// Package fpga is the backend for FPGAs: Intel's cards, AMD's Alveo, and what Linux has
// an FPGA manager for. What a driver of the kernel looks like is the business of the
// packages below it; this one has what all have in common.
//
//	driver ──► watch ──► roster ──► judge ──► devices ──► the core
//	driver ──► watch ──►   ▲          ▲          ▲
//	sensors ───────────────┘          │        nodes
//	Prepare, Reset ──► works ─────────┘
//
// A loop (loop.go) has each driver read now and then, and when the kernel says that
// something changed. Reading takes as long as sick hardware wants, so it is done beside
// the loop, one reading of a driver at a time, and so are sensors, programming and
// resets, one thing at a time of a card. What comes of it goes into the roster, which
// remembers every card and every region that was there: one in reset, half answering or
// without its driver keeps its place, and the others never notice. The judge says how a
// region is; devices are made of that.
//
// The package opens no device and parses no file of the kernel's.
package fpga
