// Package inventory holds what the node's backends report: one immutable,
// numbered snapshot of all devices.
//
// Nothing gets in unchecked. A backend is not trusted: sizes, names, duplicates
// and paths are validated against limits and a policy; a bad device is left out
// with a [Problem] that says why, a report that is bad as a whole is refused.
//
// The package does not judge: whether a device is usable is decided by package
// health, which sees the reported [Health] and the past.
package inventory
