// Package procfs reads what Linux says of a process in /proc. It does not know what the
// process is to us.
package procfs
