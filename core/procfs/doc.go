// Package procfs reads the files of a process in Linux's /proc.
package procfs
