// Package mock is a backend of devices that exist only in its settings, for
// tests, demonstrations and first steps.
//
// The settings say which devices there are; a scenario, a file that the backend
// watches, changes them while it runs: faults, recovery, hot-plug, slow and
// failing hooks, a crash, a hang, garbage. README.md, beside this file, is the
// reference of both.
//
// Everything is deterministic: the same settings, seed and scenario lead to the
// same inventory. What a container gets is real, though: by default an
// environment variable and a device node that every host has.
//
// The package knows nothing about the core. It does not simulate a driver, and
// it never touches hardware.
package mock
