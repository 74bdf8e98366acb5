// Package schema checks settings against the JSON schema that a backend describes.
//
// A schema comes from a backend, which is not trusted. A few kilobytes of nested anyOf and
// $ref, of regular expressions or of numbers with large exponents can make a check that
// never ends or uses gigabytes, and a goroutine cannot be killed. So [Check] runs the check
// in a child process: this program again, with limits on memory and processor time, killed
// when the caller's context ends.
//
// The package does not decide what follows from refused settings or from an unusable
// schema; package supervisor does.
package schema
