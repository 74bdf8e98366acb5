// Package diagram describes the devices and links of a resource, and why a set of its
// units is chosen, for people and programs: as data with stable JSON, and drawn as a
// matrix, as a tree, for graphviz and as SVG. It is what `accelmux topology` shows.
//
// The agent describes ([Describe], [Explain]); the command draws, from the data alone.
// What makes a choice good is not decided here, but in package topology.
//
// What is drawn is for a terminal or a page. Devices that have the same links to all
// others share one row, line or circle if there are many, and what does not fit all the
// same is left out and counted. [Wide] draws everything.
package diagram
