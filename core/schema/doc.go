// Package schema checks settings against the JSON schema that a backend describes.
//
// A schema comes from a backend, which is not trusted. A few kilobytes of nested anyOf and
// $ref, of regular expressions or of numbers with great exponents make a check that never
// ends or takes gigabytes, and a goroutine cannot be ended. So [Check] runs the check in a
// child process: this program again, with limits on memory and processor time, killed when
// the caller's context ends.
//
// The package does not decide what follows from a refusal or from an unusable schema;
// package supervisor does.
package schema
