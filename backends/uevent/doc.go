// Package uevent receives the kernel's uevents: devices and drivers that come and go. It is
// for backends of any kind, which know what an event means to them.
//
//	kernel ──► netlink socket ──► want? ──► channel ──► reader
//
// The reader's channel is short and the socket's buffer is bounded by the kernel.
// When a reader is too slow for both, events are dropped, and it receives [Missed]. An event
// is a reason to scan and no more: by the time it is read it may be outdated.
//
// # Containers
//
// It needs no privilege to listen. Events of devices that belong to no network
// namespace, which are all but network interfaces, are sent to every network
// namespace that the initial user namespace owns (uevent_net_init and
// uevent_net_broadcast_untagged in lib/kobject_uevent.c, since Linux 4.18; before
// that, to all). So a pod receives them in its own network namespace, unless it has a user
// namespace of its own: then the socket would receive nothing, and [Listen] fails. A sandbox
// such as gVisor has no such socket. A reader therefore scans at an interval, too.
//
// Only messages of the kernel are accepted: they have the port ID 0, which no process can have
// (netlink(7)). A process with CAP_SYS_ADMIN in the user namespace that owns the network
// namespace can have the kernel send a message there.
package uevent
