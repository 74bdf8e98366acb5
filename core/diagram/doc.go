// Package diagram describes the devices and links of a resource, and why a set of its units
// is chosen, for `accelmux topology`: as data with stable JSON, as a matrix, and as a tree.
//
// The agent makes the data ([Describe], [Explain]); the command draws it. Package topology
// decides what makes a choice good.
//
// Drawings fit a terminal or a page. If there are many devices, those with the same links to
// all others share a row, and rows beyond a limit are counted instead. [Wide] draws
// everything.
package diagram
