// Package tool runs a vendor's command-line tool where the driver is installed: with
// the driver's root as its own, so that it finds its libraries; with little of the
// environment; ended as a whole when its time is up; and with what it said, in bounds.
// It knows no tool.
package tool
