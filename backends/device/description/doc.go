// Package description is the language in which a kind of device is described: its types, strict
// checks with the paths of fields, and the compiled form. docs/device.md documents it for
// users.
//
//	JSON ──► Kind ──► Check ──► Compile ──► Compiled ──► evaluated for each object
//
// It reads no hardware.
package description
