// Package inventory has the devices that the node's backends report: one immutable,
// numbered snapshot of all devices.
//
// A backend is not trusted: sizes, names, duplicates and paths are validated against limits
// and a policy. An invalid device is left out with a [Problem] that has the reason, a report
// that is invalid as a whole is refused.
//
// The package does not decide whether a device is usable. Package health does, from the
// reported [Health] and the earlier ones.
package inventory
