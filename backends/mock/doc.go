// Package mock is a backend of devices that exist only in its settings, for
// tests, demonstrations and first steps.
//
// The settings define the devices; a scenario, a file that the backend watches,
// changes them while it runs: faults, recovery, hot-plug, slow and failing hooks, a crash, a
// hang, garbage. README.md, beside this file, is the reference of both.
//
// Everything is deterministic: the same settings and scenario lead to the same inventory. The
// edits are real, though: by default an environment variable and a device node that every host
// has.
//
// The package neither depends on the core, nor simulates a driver, nor touches hardware.
package mock
