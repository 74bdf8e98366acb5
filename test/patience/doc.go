// Package patience is how tests wait for what happens by itself.
//
// A limit is of time in which the test ran and could look. On an overloaded machine, or
// a virtual one that stands still for seconds, what is waited for comes late as well, and
// a clock on the wall would only tell how busy the machine is.
package patience
