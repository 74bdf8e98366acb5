// Package health turns what backends say of their devices into verdicts that
// stick: a fault stays until there is evidence that it is over, whatever
// restarts in between: kubelet, the backend, or this process.
//
// A device's faults are kept by code. This is the life of one:
//
//	           UNHEALTHY(code)                       evidence
//	(none) ---------------------> standing ---------------------------> over
//	                                 ^                                   |  |
//	                                 |         UNHEALTHY(code)           |  | the delay passed and
//	                                 +-----------------------------------+  | the device is listed
//	                                                                        v
//	                                                                      (none)
//
// A fault counts until it is gone; "over" too makes a device unhealthy. What is
// evidence depends on the recovery that the fault needs:
//
//	self                  HEALTHY, or a reset that worked *
//	reset                 HEALTHY with recovered, or a reset that worked *
//	reboot, replacement   HEALTHY with recovered
//	any                   its code among the cleared codes
//
// UNKNOWN is never evidence, nor is absence from the inventory. After a new boot
// of the machine all faults are gone.
//
// * A reset is newer than the inventory that is in force, which may go on saying
// UNHEALTHY until the backend has looked again. So it is evidence from the moment
// that the backend no longer says UNHEALTHY with this code. A backend that still
// says so a minute later, or says that it is graver now, has told the truth, and
// the reset is forgotten.
//
// Further:
//
//   - UNHEALTHY acts at once. With the code of a standing fault, the graver
//     recovery of the two holds; with that of a fault that is over, it is a new one.
//   - Evidence is an event. It stays if the backend afterwards says only HEALTHY
//     or UNKNOWN. Snapshots may be skipped, events may not: they come from
//     inventory.Backend.Superseded.
//   - The delay is the backend's policy. For a device that flaps it doubles with
//     every fall beyond the third, to at most 5 minutes. Ten minutes without a
//     fault, and its falls are forgotten.
//   - A device that is not listed keeps its faults, and the delay does not pass.
//   - A device that can be given to nobody because it has no edits has the fault
//     [CodeNoEdits] of RecoverySelf, and edits are the evidence against it.
//   - A partition has the faults of its parent too, marked with where they are
//     from, but not CodeNoEdits: a parent need not be usable itself. A parent
//     that is not listed cannot speak for itself; its partitions do, together:
//     what all of them say counts for it, except UNHEALTHY.
//   - Of a backend whose faults take more than 4 MiB only the gravest of each device is
//     remembered, until all are gone; Notes say so.
//   - Devices of a backend that has been lost for longer than its holdover have
//     the fault [CodeBackendLost], which does not stick.
//
// Faults are written to a state file that holds for one boot of the machine, and what
// changes to a journal before it is told, so that a process that is killed at any moment
// forgets nothing that it has told; also while the disk is full. Files that cannot be
// read or written cost memory over restarts, nothing else.
//
// The package does not decide about resets, nor about what kubelet is told.
package health
