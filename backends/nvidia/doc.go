// Package nvidia is the backend for NVIDIA GPUs.
//
//	driver ──► roster ──► judge ──► devices ──► the core
//	events ──────────────►  ▲           ▲
//	                       xid     edits, mps
//
// A loop (watch.go) looks at the GPUs now and then, and after every event. What a
// look finds goes into the roster, which remembers every GPU that was there, so
// that a dead one keeps its identity and the others never notice. The judge joins
// what events told with what the GPU says of itself; devices are made of that.
//
// The package calls no NVML itself (that is driver's), knows no meaning of an XID
// (xid's) and no device node (edits').
package nvidia
