// Package tool runs a vendor's command-line tool where the driver is installed: with the
// driver's root as its own, so that it finds its libraries, and with few environment variables.
// It kills the tool's whole process group when the context ends, and bounds its output. It is
// specific to no tool.
package tool
