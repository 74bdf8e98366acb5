// Package amdtree makes what a kernel with AMD GPUs shows: the trees /sys and /dev,
// in a directory, for tests on machines without such a GPU.
//
// A [Machine] says what is plugged in, or a captured KFD topology does ([Capture]).
// [Write] makes the tree, and its methods change it while others read it: a
// partition mode, a card that goes, a driver that is loaded anew, a file that is
// damaged. README.md says by which rules the tree is made, and which half states of
// a change can be seen.
//
// The package knows the kernel's side only; it imports none of the code that reads
// such trees but for the form of PCI addresses.
package amdtree
