// Package sysroot is what makers of trees for tests have in common: a directory with
// sys and dev as a kernel shows them, where it is made, how files and links get into
// it, what can be done to a file that a reader must survive, and where captures of
// real machines are. Unit tests make the few files that they need with [Files].
//
// It knows no kind of hardware; test/amdtree and test/fpgatree do.
package sysroot
