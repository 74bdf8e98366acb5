// Package sysfs reads and writes small files of sysfs and procfs. A file may have any content
// (cut off, binary, endless) or be no regular file, such as a pipe in a test tree or a
// container. So each read has a bound, never blocks, and accepts regular files only. The package
// is specific to no device and no path.
package sysfs
