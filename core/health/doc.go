// Package health computes verdicts from the health that backends report. A fault sticks: it
// stays until there is evidence that it is cleared, over restarts of kubelet, of the backend
// and of this process.
//
// A device's faults are stored by code. This is the life of one:
//
//	           UNHEALTHY(code)                       evidence
//	(none) ---------------------> standing --------------------------> cleared
//	                                 ^                                   |  |
//	                                 |         UNHEALTHY(code)           |  | the delay passed and
//	                                 +-----------------------------------+  | the device is listed
//	                                                                        v
//	                                                                      (none)
//
// A device is unhealthy while it has a fault, standing or cleared. What counts as evidence
// depends on the recovery that the fault needs:
//
//	self                  HEALTHY, or a reset that worked *
//	reset                 HEALTHY with recovered, or a reset that worked *
//	reboot, replacement   HEALTHY with recovered
//	any                   its code among the cleared codes
//
// UNKNOWN is never evidence, nor is absence from the inventory. After a new boot
// of the machine all faults are gone.
//
// * A reset is newer than the current inventory, which may have UNHEALTHY until the backend's
// next scan. So a reset is evidence from the moment that the backend no longer reports
// UNHEALTHY with this code. If the backend still reports it a minute later, or reports a
// graver recovery, the fault stands and the reset is forgotten.
//
// Further:
//
//   - UNHEALTHY acts at once. A repeated code keeps the graver recovery. After the fault was
//     cleared, its code is a new fault.
//   - Evidence is an event. It stays if the backend afterwards reports only HEALTHY
//     or UNKNOWN. Snapshots may be skipped, events may not: they come from
//     inventory.Backend.Superseded.
//   - The delay is the backend's policy. For a device that flaps it doubles with
//     every fall beyond the third, to at most 5 minutes. After ten minutes without a
//     fault, its falls are forgotten.
//   - A device that is not listed keeps its faults, and the delay does not pass.
//   - A device without container edits has the fault [CodeNoEdits] of RecoverySelf. Edits are
//     the evidence against it.
//   - A partition also has the faults of its parent, marked with the parent's ID. CodeNoEdits
//     is not among them: a container need not be able to use the parent itself.
//   - If a parent is not listed, evidence that all its partitions report applies to it.
//   - A device that the backend could not look at has the fault [CodeUnread], which does not stick. Nothing is
//     evidence about it meanwhile, and the delay does not pass.
//   - A device has at most 8 faults, the gravest, and their messages are cut after 256 bytes.
//   - Devices of a backend that has been lost for longer than its holdover have
//     the fault [CodeBackendLost], which does not stick.
//
// The state file has all faults of this boot of the machine. It is written before the
// verdicts are used, so a process that is killed at any moment forgets nothing that kubelet
// knows. A file beside it reserves room for a write, so that it can be written while the disk
// is full. While it cannot be written all the same, a restart forgets what changed since.
//
// The package does not decide about resets, nor about what kubelet gets.
package health
