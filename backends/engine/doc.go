// Package engine is the loop that monitors hardware for a backend. A vendor implements
// [Driver] (scan, reset) and [Vendor] (what is a fault, what a container gets), and
// further abilities by further interfaces: a Driver can be a [Poller], [Senser] or [Measurer], a Vendor a
// [Rememberer], [Counter], [EventReader] or [Labeler]. The engine has the rules that all vendors
// share. It opens no device and is specific to no vendor.
//
//	Driver.Scan  ──► source ──► roster ──► judge ──► Vendor.List ──► the core
//	uevents ──────────┘           ▲          ▲
//	Senser.Sense ─────────────────┘          │
//	Reset, Run ───────────────────────── operation
//
// # Rules
//
// The loop never waits for hardware. Scans, sensors, checks, resets and other operations
// run beside it, and pass their result to the loop as a function.
//
// Scans. Each driver is scanned after every Settings.Interval, one scan at a time.
//
//   - An event of the kernel asks for a scan: 250 ms later, so that a burst causes one, and
//     at most once a second.
//   - While something is missing (a device node, a part that the driver lists and cannot
//     read, a unit that does not answer, everything) scans come after 1 s, 2 s, 4 s, up to the interval.
//   - What could not be looked at is unread in the inventory, never gone: all devices of the driver if nothing could be
//     read (Scan.Err), those that a problem made the scan leave out (Problem.Lost), and those whose hardware is on the PCI
//     bus without the driver (Scan.Away). A process that has no result of a scan after 5 s says so of all devices.
//   - New settings are published once each driver was scanned with them.
//   - A driver can ask for an earlier next scan (Scan.Next); [Known.ScanNow] asks for one at once.
//   - A [Poller] is polled between scans, after Settings.Polling: its health is read again. So that polls
//     take at most 3% of the time, the pause is at least 30 times as long as the last poll took, up to the interval.
//     Scans of a Poller come every 10 minutes, as a change may have no event; at the interval while the
//     kernel's events cannot be received, and once after a scan that an event asked for, since programs
//     change device nodes after an event.
//   - If a scan has no result after 5 s, the health of that driver's devices is unknown until
//     it has one, and one problem is reported. Other drivers are scanned meanwhile.
//
// Events that come in other ways (a stream of the driver, another process) are for
// Settings.Monitor, which runs beside the loop and passes them to it with [Engine.Do]. An
// [EventReader] gets uevents that report more than a change. A [Check] runs at an interval: its
// error is a problem, and so is a run that hangs.
//
// A scan may see half of a change, so it is accepted like this:
//
//	           ┌─ same result ──────────────► accepted
//	unconfirmed┤
//	  ▲        └─ another result, 16 times ─► accepted
//	  │ a known unit, device or content is missing, or a new problem
//	scan ──────────── otherwise ────────────► accepted
//	  │ the machine changed during the read
//	  ▼
//	unstable ──► scan again ──► after 16 scans a problem is reported; never accepted
//
// Roster. A [Unit] is a physical device, a [Device] a part of it that a container gets. Both
// keep their place, identity and last stable reading until they are unplugged:
//
//	          missing in a scan                 gone from the bus
//	present ────────────────────► absent, fault ────────────────► forgotten
//	   ▲                             │                                         │
//	   └──── in a scan again ────────┴─────────────────────────────────────────┘
//	         evidence of recovery, if the driver had released it, or its hardware was gone
//
// A fault belongs to the hardware: by the ID of a unit that was unplugged comes another card, or one that was set up
// again. The kernel's event that a PCI function was added shows that, too, if no scan saw its place empty.
//
// A unit that two drivers find, by its ID or its objects, belongs to the first of them in Settings.Drivers.
//
// Health. The gravest fault is reported, and of equal ones the first of: an operation in
// progress, a reset by the driver, unit absent, device missing, the vendor's, busy, shared with
// the unit, device node missing. A busy device (in reset, or being programmed by another
// process) has the fault "resetting" and keeps its last stable reading, and so have the
// devices of a unit that the driver resets on its own ([KnownUnit.BeginReset]). After 2 minutes
// the fault needs a reset. Evidence of recovery (sdk.Recovered) is a reset or a reload of the
// driver, followed by a scan that began later. It lasts until the next fault whose recovery is
// more than self. A reset is evidence for the other devices of the board, too, unless they had a
// fault of their own. A vendor may have evidence of its own, such as a driver that reports
// that nothing is to be done, or may not know the health: both are reported while there is
// no fault.
//
// Operations. At most one operation runs on a board. A device that is being programmed is
// reported as before; one that is being reset has the fault "resetting".
//
//	         returns ────────────────────────► scan that began later ─► done
//	running ─┤
//	         caller's deadline ─► abandoned, fault "programming" ─► returns ─► scan ─► done
//
// Scans that began before the end of an operation are ignored for its devices. [Engine.Scan]
// waits for a scan that began after the call. After a reset it waits, for at most 30 s,
// until all devices are back and can be read; that scan shows whether the reset helped. Meanwhile
// they have the fault "resetting". A reset may exclude
// all else (Options.ExclusiveReset): it waits for the scan in progress and for operations on
// other units of the driver, and none begins before it has ended.
//
// Sensors are read after each Settings.Sensing, one reading of a unit at a time, and not of an
// absent unit. A reading that began before a reset is ignored. Settings.SensesRequired is for
// hardware whose error counters are its health. Then
//
//   - a unit is listed once its sensors were read, or after 5 s,
//   - its health is unknown while a reading has no result after 5 s,
//   - [Engine.Scan] waits for a reading that began after the call, too,
//   - evidence of recovery needs a reading that began after the reset, too.
//
// Telemetry: units are read concurrently. A unit that takes longer than 3 s is left
// out, and is not read again before it returns.
//
// # Concurrency
//
// Methods of [Engine] may be called from any goroutine. Methods of [Driver] run beside the
// loop, also concurrently. Methods of [Vendor], [Rememberer], [Counter], [EventReader] and
// [Labeler] run in the loop and must not block; [Known], [KnownUnit] and [KnownDevice] may be
// used only there.
package engine
