// Package openfiles finds the processes of this node that have a device open, by the descriptors in /proc. A device is its
// type and number: it does not matter by which path, or in which mount namespace, a process opened it.
//
// Not found are processes whose descriptors /proc does not show: of memory that is mapped while its file is closed, of
// descriptors that wait in a socket or belong to io_uring, of a thread with descriptors of its own, and in a virtual
// machine; and users in the kernel, such as a mounted file system.
package openfiles
