// Package openfiles finds the processes of this node that have a device node open. Drivers report
// processes that compute on a device, but not those that only have it open, such as monitors.
//
// A backend in its sandbox may not inspect other processes, so it asks the process that started it, the
// agent or the launcher of its container, over a socket that it inherits:
//
//	backend: Find ─► socket ─► Serve: is the node the backend's? ─► Scan of procfs
//
// docs/handshake.md describes the messages. Core and backends both import this package.
package openfiles
