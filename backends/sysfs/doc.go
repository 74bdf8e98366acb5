// Package sysfs reads small files of sysfs and procfs that a driver answers. What
// is there may be anything (cut off, binary, endless, a pipe in a test tree or a
// container), so each read has a bound, waits for nobody, and takes regular files
// only. It knows no device and no path.
package sysfs
