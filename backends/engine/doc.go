// Package engine is the loop that monitors hardware for a backend. A vendor implements
// [Driver] (scan, reset) and [Vendor] (what is a fault, what a container gets), and
// further abilities by further interfaces: [Senser], [Rememberer], [Counter]. The engine
// has the rules that all vendors share. It opens no device and knows no vendor.
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
//     read) scans come after 1 s, 2 s, 4 s, up to the interval.
//   - If a scan has no result after 5 s, the health of that driver's devices is unknown until
//     it has one, and a problem is reported. Other drivers are scanned meanwhile.
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
//	   ▲                             │
//	   └──── in a scan again ────────┘  evidence of recovery, if the driver had released it
//
// Of two drivers that find one unit the first in Settings.Drivers has it.
//
// Health. The gravest fault is reported, and of equal ones the first of: an operation in
// progress, unit absent, device missing, the vendor's, busy, shared with the unit, device
// node missing. A busy device (in reset, or being programmed by another process) has the
// fault "resetting" and keeps its last stable reading. After 2 minutes the fault needs a
// reset. Evidence of recovery (sdk.Recovered) is a reset or a reload of the driver,
// followed by a scan that began later. It lasts until the next fault whose recovery is more
// than self. A reset is evidence for the other devices of the board, too, unless they had a
// fault of their own.
//
// Operations. At most one operation runs on a unit. A device that is being programmed is
// reported as before; one that is being reset has the fault "resetting".
//
//	         returns ────────────────────────► scan that began later ─► done
//	running ─┤
//	         caller's deadline ─► abandoned, fault "programming" ─► returns ─► scan ─► done
//
// Scans that began before the end of an operation are ignored for its devices. [Engine.Scan]
// waits for a scan that began after the call. After a reset it waits, for at most 30 s,
// until all devices are back; that scan shows whether the reset helped.
//
// Telemetry: units are read concurrently. A unit that takes longer than 3 s is left
// out, and is not read again before it returns.
//
// # Concurrency
//
// Methods of [Engine] may be called from any goroutine. Methods of [Driver] run beside the
// loop, also concurrently. Methods of [Vendor], [Rememberer] and [Counter] run in the loop
// and must not block; [KnownUnit] and [KnownDevice] may be used only there.
package engine
